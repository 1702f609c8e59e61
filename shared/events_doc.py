"""Writes docs/events.md from `shared.events`: ``python -m shared.events_doc docs/events.md``."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from shared.events import COMMANDS, EVENTS, BlobRef, Durations, Media, Message, Row, TokenCounts, Trajectory, Used, tag_of
from shared.subjects import pattern_of

_HEAD = """# Messages on the bus

Generated from `shared/events` by `python -m shared.events_doc docs/events.md`; a test compares the two.

Bodies are JSON with a `type` field. Subjects are `forge.v1.<evt|cmd>.<noun>.<verb>.<run_id>.<key>`. Fields of type
`bytes` are packed arrays (little-endian uint32 ids, uint8 masks, float32 log-probabilities) in base64.
Every message carries `run_id` and `at` (unix seconds). New fields keep the version; a changed meaning is a new one.

Ids are 1 to 120 of the characters A-Z a-z 0-9 and `-`; counts, sizes and places are not negative and not absurdly large; run id
and key stand in the subject as in the body. Anything else is no message, and becomes a [dead letter](deadletters.md).
"""


def render() -> str:
    """The whole page."""
    parts = [_HEAD, "## Commands\n", *(_message(t) for t in COMMANDS), "## Events\n", *(_message(t) for t in EVENTS)]
    parts += [
        "## Bodies\n",
        *(_section(t, t.__name__) for t in (Trajectory, Row, TokenCounts, Media, BlobRef, Durations, Used)),
    ]
    return "\n".join(parts)


def _message(kind: type[Message]) -> str:
    return _section(kind, f"`{tag_of(kind)}`", f"Subject: `{pattern_of(kind, '<run_id>', '<key>')}`\n\n")


def _section(kind: type[msgspec.Struct], title: str, before: str = "") -> str:
    meanings = _meanings(kind)
    rows = [
        f"| `{f.name}` | {_type(f.type)} | {_default(f)} | {meanings.get(f.name, '')} |"
        for f in msgspec.structs.fields(kind)
        if f.name not in ("run_id", "at")
    ]
    table = "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows])
    summary = (inspect.getdoc(kind) or "").split("\nAttributes:")[0].strip()
    return f"### {title}\n\n{before}{summary}\n" + (f"\n{table}\n" if rows else "")


def _meanings(kind: type) -> dict[str, str]:
    """Field meanings from the `Attributes:` parts of a class and its bases; the class itself wins."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        doc = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        found.update({name: " ".join(text.split()) for name, text in re.findall(r"^    (\w+): (.*(?:\n      .*)*)", doc, re.M)})
    return found


def _type(kind: Any) -> str:
    text = kind.__name__ if isinstance(kind, type) else re.sub(r"(typing|shared\.events\.\w+)\.", "", str(kind))
    text = re.sub(r"Annotated\[(\w+), .*?\)\]", r"\1", text)
    text = re.sub(r"Optional\[(\w+)\]", r"\1 | None", text)
    return f"`{text}`".replace("|", "\\|")


def _default(f: msgspec.structs.FieldInfo) -> str:
    if f.required:
        return "required"
    if f.default_factory is not msgspec.NODEFAULT:
        return f"`{f.default_factory()!r}`" if f.default_factory in (list, dict) else ""
    if isinstance(f.default, msgspec.Raw):
        return f"`{bytes(f.default).decode()}`"
    return f"`{f.default!r}`" if not isinstance(f.default, msgspec.Struct) else "empty"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
