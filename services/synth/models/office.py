"""The base of assistant tasks: the office of the domain `claw`, with mail, calendar, chat, contacts and files."""

from __future__ import annotations

import ast
import tempfile
import tomllib
from pathlib import Path

from services.synth.domains.claw.draft import OFFICE, Draft, write
from services.synth.domains.claw.families import FAMILIES
from services.synth.models import folder as folders
from services.synth.models.bases import Base, Fill

SEED, BEFORE = "environment/office.d/seed.json", "tests/before.json"
_WRITTEN = (SEED, "tests/check.py", "solution/solve.sh")
_SAMPLE = "mail-amount"
_SHOWN = 30_000
"""Bytes of the example."""
_GUIDE = """\
A working folder (/app) with Python 3.11's standard library and a POSIX shell, no network, and an office that is served beside
the agent. The agent uses it by the command `./office` (its help has these examples):

{examples}

`office.d/seed.json` is the office as it is in the beginning: see the example for its form. Times are written
2026-03-02T09:00; the office's own clock (`now`) stands still but for a tick with each change. Addresses end in .test.

`tests/check.py` begins with `from expect import Expect` and `expect = Expect.load()`, ends with
`expect.nothing_else_changed()` and `expect.finish()`, and says in between what is expected, in these words (they print what
does not hold, and write the reward):

{expect}

`expect.files_untouched` wants digests that you need not work out: write a file that is to stay as it is below tests/, too,
and let check.py take the digest of that one (`Path(__file__).parent`).

`solution/solve.sh` is run by sh in the working folder, and uses `./office` as an agent would."""


def office_base() -> Base:
    """See `Base`."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(Draft(instruction="", office={}, solve="", checks=[]), folder, "base", "easy", 0)
        toml = tomllib.loads((folder / folders.TOML).read_text(encoding="utf-8"))
        paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        ours = sorted(set(paths) - {folders.TOML, folders.INSTRUCTION, BEFORE, *_WRITTEN})
        files = {path: paths[path].read_text(encoding="utf-8") for path in ours}
        scripts = frozenset(path for path in ours if paths[path].stat().st_mode & 0o111)
    for name in ("family", "level", "seed"):
        toml["metadata"].pop(name)
    return Base(
        files=files, scripts=scripts, toml=toml, needed=_WRITTEN, fills=(Fill(BEFORE, SEED),), guide=_guide(),
        example=_example({*files, BEFORE, folders.TOML}),
    )  # fmt: skip


def _guide() -> str:
    client = ast.parse((OFFICE / "client.py").read_text(encoding="utf-8"))
    examples = next(
        ast.literal_eval(node.value) for node in client.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXAMPLES"
    )  # fmt: skip
    return _GUIDE.format(examples=examples, expect="\n".join(_words()))


def _words() -> list[str]:
    """The methods of `Expect`, each with what it means."""
    module = ast.parse((OFFICE / "expect.py").read_text(encoding="utf-8"))
    (expect,) = (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Expect")
    methods = [node for node in expect.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    told = {node.name: (ast.get_docstring(node) or "").replace("\n", " ") for node in methods}
    return [
        f"- expect.{node.name}({ast.unparse(node.args).removeprefix('self').removeprefix(', ')}): {told[node.name]}"
        for node in methods if node.name != "load"
    ]  # fmt: skip


def _example(taken: set[str]) -> str:
    with tempfile.TemporaryDirectory() as place:
        (family,) = (one for one in FAMILIES if one.name == _SAMPLE)
        family.make(1, Path(place))
        return "A task of this kind, to show the forms (do not copy it):\n\n" + folders.listing(Path(place), taken, _SHOWN)
