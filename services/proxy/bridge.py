"""Splicing: what a template puts between a reply and the next generation, as token ids. Pure.

No tokenizer, template or parser of our own: the engine renders two short conversations, one of which holds a stand-in for the
reply with the same tool calls and the new messages, and the delta is cut out of the longer one at the stop token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from services.proxy.known import Known

_USER = msgspec.Raw(b'{"role":"user","content":"u"}')


class Declined(Exception):
    """A call cannot be spliced; the text is its reason, as it stands in `CallRecorded.fork`."""


@dataclass(frozen=True, slots=True)
class Frame:
    """How the engine renders one user message, without and with the generation prompt after it (token ids)."""

    closed: list[int]
    open: list[int]


def frame_messages() -> list[msgspec.Raw]:
    """The conversation of a `Frame`."""
    return [_USER]


def stand_in(parent: Known, new: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """The conversation to render: the frame's, an empty reply that calls the parent's tools, and the new messages."""
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": "{}"}} for i, name in parent.tools]
    reply = {"role": "assistant", "content": ""} | ({"tool_calls": calls} if calls else {})
    return [_USER, msgspec.Raw(msgspec.json.encode(reply)), *new]


def delta(frame: Frame, rendered: Sequence[int], stop: int | None, stops: Iterable[int]) -> list[int]:
    """The ids that follow the parent's own.

    Args:
        frame: as the engine renders it.
        rendered: ids of the `stand_in`, generation prompt included.
        stop: token that the parent ended with; None if it was cut short.
        stops: tokens that end a turn, as far as they are known.

    Raises:
        Declined: `template_moves`, the template changes what came before; `stop_mismatch`, it ends turns in another way.
    """
    common = _common(frame.open, rendered)
    if common < len(frame.closed):
        raise Declined("template_moves")
    ends = set(stops) if stop is None else {*stops, stop}
    at = next((i for i in range(common, len(rendered)) if rendered[i] in ends), None)
    if at is None or (stop is not None and rendered[at] != stop):
        raise Declined("stop_mismatch")
    return list(rendered[at:] if stop is None else rendered[at + 1 :])


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
