"""Bases of tasks whose program keeps tables: an encyclopaedia in a browser, a note and a form on a desktop. All is as a family
of the domain has it, but for the data, what is to come of them, and what the solution is told."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path

from services.synth.domains import FAMILIES
from services.synth.models import folder as folders
from services.synth.models.bases import Base, Fill

DATA, EXPECTED, KNOWN = "environment/data.json", "tests/expected.json", "solution/known.json"
_SHOWN = 16_000
"""Bytes of the example."""
_GUIDE = """\
{about} The program is there already, and so are the verifier and a solution that does such tasks as a user would, by what is on
the screen alone. You write data for it, in the form of the example:

- `environment/data.json`: `settings` and `tables` as the program has them in the beginning. Every row has an `id`.
- `tests/expected.json`: `changes`, what is new or other when the task is done, each with `table`, `id` and `set` (fields with
  their values); `fold`, whether capitals count for nothing. Leave `start` an empty object: it is filled in from the data.
- `solution/known.json`: what the solution is told. It is what the instruction says, and nothing that has to be found.

The reward is the share of changes that are both wanted and there, among those that are either."""
_ABOUT = {
    "wiki-find": "A real browser at http://site.test/, which serves a small encyclopaedia: articles that link one another, a "
    "search for words in titles, and a desk that takes one answer. The tasks: find a fact over one or several articles, and "
    "hand it in.",
    "note-to-form": "A desktop with two windows, a note of several pages and a form whose fields have patterns and options. "
    "The tasks: find an entry in the note and enter it into the form, once.",
}


def tables_base(name: str) -> Base:
    """A base with the program, the verifier and the solution of a family.

    Args:
        name: of the family.
    """
    (family,) = (one for one in FAMILIES if one.name == name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        family.make(1, folder)
        toml = tomllib.loads((folder / folders.TOML).read_text(encoding="utf-8"))
        paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        ours = sorted(set(paths) - {folders.TOML, folders.INSTRUCTION, DATA, EXPECTED, KNOWN})
        files = {path: paths[path].read_text(encoding="utf-8") for path in ours}
        scripts = frozenset(path for path in ours if paths[path].stat().st_mode & 0o111)
        example = folders.listing(folder, {*ours, folders.TOML}, _SHOWN)
    for key in ("family", "level"):
        toml["metadata"].pop(key)
    return Base(
        files=files, scripts=scripts, toml=toml, needed=(DATA, EXPECTED, KNOWN), guide=_GUIDE.format(about=_ABOUT[name]),
        fills=(Fill(EXPECTED, DATA, "tables", "start"),),
        example=f"A task of this kind, to show the forms (do not copy it):\n\n{example}",
    )  # fmt: skip
