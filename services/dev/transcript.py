"""The conversations of an attempt, restored from the pieces that its records hold. Pure.

A request's messages are those of the request that it goes on from, that one's reply, and its own new ones. Requests that go on
from each other make a path; an attempt has one for every way from a first request to one that nothing went on from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from shared.events import CallRecorded, SessionSealed

Json = dict[str, Any]
Calls = Mapping[int, CallRecorded]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One path of calls, from its first request to its last reply.

    Attributes:
        calls: in their order; each goes on from the one before it.
        tools: of the last call, as the harness sent them; none for an empty list.
    """

    calls: list[CallRecorded]
    tools: list[Json]

    @property
    def last(self) -> CallRecorded:
        """Its last call."""
        return self.calls[-1]

    def messages(self) -> list[Json]:
        """All messages in the OpenAI chat format, the replies included."""
        return [m for call in self.calls for m in (*new_messages(call), call.reply)]


def conversations(calls: Calls, sealed: SessionSealed | None = None) -> list[Conversation]:
    """The conversations that agents had, summaries of them included, in the order of their last calls.

    A call whose reply did not reach the harness whole ends none; of several tries at one request only those count that
    something went on from, else the last.

    Args:
        calls: of one attempt, by number.
        sealed: the end of its session, which knows of replies that were cut.
    """
    cut = set(sealed.cut if sealed else ())
    own = {n: c for n, c in calls.items() if c.role not in ("aux", "judge")}
    extended = {c.messages_from for c in own.values()}
    ends = [n for n, c in own.items() if n not in extended and n not in cut and c.delivery == "sent"]
    return [_conversation(calls, n) for n in sorted(ends) if not _retried(own[n], own, ends, extended)]


def path(calls: Calls, seq: int) -> list[int]:
    """Numbers of the calls that a call's conversation consists of, itself the last. One that is missing begins it."""
    numbers = [seq]
    while (before := calls[numbers[-1]].messages_from) is not None and before in calls:
        numbers.append(before)
    return numbers[::-1]


def new_messages(call: CallRecorded) -> list[Json]:
    """The messages that a request has beyond the conversation that it goes on from."""
    return [msgspec.json.decode(raw) for raw in call.messages]


def _conversation(calls: Calls, seq: int) -> Conversation:
    return Conversation([calls[n] for n in path(calls, seq)], tools_of(calls, calls[seq]))


def tools_of(calls: Calls, call: CallRecorded) -> list[Json]:
    """The tools of a call; they are on record with the first call of the session that had them."""
    for known in calls.values():
        if call.tools_digest and known.tools_digest == call.tools_digest and bytes(known.tools) != b"null":
            return msgspec.json.decode(known.tools, type=list[Json])
    return []


def _retried(call: CallRecorded, calls: Calls, ends: Sequence[int], extended: Collection[int | None]) -> bool:
    same = [
        n for n, other in calls.items()
        if (other.messages_from, other.start, other.messages) == (call.messages_from, call.start, call.messages)
    ]  # fmt: skip
    return any(n in extended for n in same) or any(n > call.seq and n in ends for n in same)
