"""docs/events.md from `shared.events`, with who may publish and take each message from `shared.bus.rights`."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from scripts.docs.markdown import meanings, summary
from shared.bus.rights import RIGHTS
from shared.events import COMMANDS, EVENTS, BlobRef, Durations, Media, Message, Row, TokenCounts, Trajectory, Used, tag_of
from shared.subjects import pattern_of

_HEAD = """# Messages on the bus

Generated from `shared/events` and `shared/bus/rights.py` by `python -m scripts.docs`; a test compares the two.

Bodies are JSON with a `type` field. Subjects are `forge.v1.<evt|cmd>.<noun>.<verb>.<run_id>.<key>`. Fields of type
`bytes` are packed arrays (little-endian uint32 ids, uint8 masks, float32 log-probabilities) in base64.
Every message carries `run_id` and `at` (unix seconds). New fields keep the version; a changed meaning is a new one.

Ids are 1 to 120 of the characters A-Z a-z 0-9 and `-`; counts, sizes and places are not negative and not absurdly large; run id
and key stand in the subject as in the body. Anything else is no message, and becomes a [dead letter](deadletters.md).
The collector's consumer `archive` takes every event.
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
    subject = f"Subject: `{pattern_of(kind, '<run_id>', '<key>')}`"
    return _section(
        kind, f"`{tag_of(kind)}`", f"{subject}  \nPublished by: {_publishers(kind)}. Taken by: {_takers(kind)}.\n\n"
    )


def _publishers(kind: type[Message]) -> str:
    return ", ".join(user for user, rights in RIGHTS.items() if kind in rights.publishes) or "nobody yet"


def _takers(kind: type[Message]) -> str:
    """Users, with the names of their consumers; the archive, which takes all events, is left out."""
    taken = {
        user: [d for d, types in rights.consumes.items() if kind in types and d != "archive"] for user, rights in RIGHTS.items()
    }
    return (
        ", ".join(f"{user} (as {', '.join(f'`{d}`' for d in durables)})" for user, durables in taken.items() if durables)
        or "nobody"
    )


def _section(kind: type[msgspec.Struct], title: str, before: str = "") -> str:
    told = meanings(kind)
    rows = [
        f"| `{f.name}` | {_type(f.type)} | {_default(f)} | {told.get(f.name, '')} |"
        for f in msgspec.structs.fields(kind)
        if f.name not in ("run_id", "at")
    ]
    table = "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows])
    return f"### {title}\n\n{before}{summary(kind)}\n" + (f"\n{table}\n" if rows else "")


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
