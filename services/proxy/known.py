"""What a proxy knows of the calls of each session: enough to find a call's parent and to send its exact ids again.

It is a cache. All of it can be rebuilt from the records, so that any proxy can serve any call of a rollout.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from operator import eq

import msgspec
import orjson

from services.proxy import paths as message_paths
from shared.events import CallRecorded
from shared.lineage import Lineage, Parent
from shared.packing import digester, unpack_ids

KNOWN_SESSIONS = 4096
KNOWN_BYTES = 256 * 1024 * 1024
"""What is kept in memory; the sessions used last stay."""
_COMMA = ord(",")
_CALL_BYTES = 1500  # of a call beside its ids, roughly
_MESSAGE_BYTES = 200  # of a message beside its text
_LONGEST_MESSAGE = 256 * 1024
"""Bytes of the longest message that is kept: a longer one is mostly an image, which would crowd out sessions."""


def ids_json(ids: bytes) -> bytes:
    """Packed ids as the inside of a JSON array: ``1,2,3``."""
    return orjson.dumps(unpack_ids(ids))[1:-1]


def first_thought(reasons: bool, completion: bytes) -> int | None:
    """The token that the reasoning of a reply begins with: its first; None where it has no reasoning.

    Args:
        reasons: it has.
        completion: packed ids.
    """
    return unpack_ids(completion[:4])[0] if reasons and completion else None


class Known(msgspec.Struct, frozen=True):
    """A recorded call.

    Attributes:
        seq: its number.
        parent: number of the call that it extends, None for a root.
        length: tokens of prompt and completion.
        ids: packed uint32, those that follow the parent's.
        json: the same as the inside of a JSON array.
        digest: running hash over prompt and completion.
        stop: id of the stop token that it ended with, None if it was cut short (also by a stop string).
        tools: (id, name) of the tools that its reply calls.
        thought: first token of its reply if that begins with reasoning.
    """

    seq: int
    parent: int | None
    length: int
    ids: bytes
    json: bytes
    digest: blake2b
    stop: int | None
    tools: tuple[tuple[str, str], ...] = ()
    thought: int | None = None


@dataclass(slots=True)
class Session:
    """The calls of one session.

    Attributes:
        calls: recorded calls by number.
        paths: number of the call whose reply ends a message path (`services.proxy.paths`).
        ends: the same the other way round: path by number.
        nodes: all message paths that were seen on the way.
        tools: digests of the tool lists that stand in a record.
        replayed: position in the bus's stream up to which records of other proxies were taken in.
        size: bytes that all of it takes, roughly.
        counted: how many of them a `Book` knows of.
    """

    calls: dict[int, Known] = field(default_factory=dict)
    paths: dict[bytes, int] = field(default_factory=dict)
    ends: dict[int, bytes] = field(default_factory=dict)
    nodes: set[bytes] = field(default_factory=set)
    tools: set[str] = field(default_factory=set)
    replayed: int = 0
    size: int = 0
    counted: int = 0
    _walked: dict[bytes, tuple[list[msgspec.Raw], list[bytes]]] = field(default_factory=dict)
    _lineage: Lineage = field(default_factory=Lineage)
    _unfiled: list[Known] = field(default_factory=list)  # in the lineage; most sessions never look anything up there
    _through: int = 0
    _beyond: set[int] = field(default_factory=set)

    def note(self, seq: int) -> None:
        """Notes a number as one that nothing more need be found out about: it began here, or its record was seen."""
        self._beyond.add(seq)
        while self._through + 1 in self._beyond:
            self._through += 1
            self._beyond.discard(self._through)

    def misses(self, before: int) -> bool:
        """Whether there are calls with lower numbers that this proxy has not heard of."""
        return self._through < before - 1

    def add(self, call: Known, path: bytes) -> None:
        """Makes a recorded call known."""
        self.calls[call.seq] = call
        self.ends[call.seq] = path
        self.nodes.add(path)
        self.paths[path] = max(call.seq, self.paths.get(path, 0))
        self._unfiled.append(call)
        self.size += len(call.ids) + len(call.json) + _CALL_BYTES

    def parent(self, prompt: bytes) -> Parent | None:
        """The longest known call whose prompt and completion are a strict prefix of some packed ids."""
        for call in self._unfiled:
            self._lineage.add(call.seq, self.full(call.seq), call.parent)
        self._unfiled.clear()
        return self._lineage.parent(prompt)

    def full(self, seq: int) -> bytes:
        """Prompt and completion of a call as packed ids."""
        return b"".join(c.ids for c in self._chain(seq))

    def end(self, seq: int, json: bytes) -> int:
        """Where the prompt and completion of a call end at the beginning of a longer JSON array without blanks, the comma
        included; 0 where it does not begin with them. Without blanks, equal ids are equal text."""
        at = 1
        for call in self._chain(seq):
            if call.json:
                if not json.startswith(call.json, at) or json[at + len(call.json)] != _COMMA:
                    return 0
                at += len(call.json) + 1
        return at

    def full_json(self, seq: int) -> bytes:
        """Prompt and completion of a call as the inside of a JSON array."""
        return b",".join(c.json for c in self._chain(seq) if c.json)

    def thought(self, seq: int) -> int | None:
        """The token that the latest reasoning among the ids of a call began with; None where there is none."""
        return next((c.thought for c in reversed(self._chain(seq)) if c.thought is not None), None)

    def digest(self, seq: int | None) -> blake2b:
        """A copy of the running hash over a call's ids, to go on from; over nothing for None."""
        return digester() if seq is None else self.calls[seq].digest.copy()

    def walk(self, start: bytes, messages: Sequence[msgspec.Raw]) -> list[bytes]:
        """The message path after each of some messages, from the path `start` on.

        To digest messages costs as much as all else where conversations are long, and a harness sends them again and again:
        those with which the last conversation from there began are only compared.

        Raises:
            Refused: 400, one is nested too deeply.
        """
        known, path = self._walked.setdefault(start, ([], []))
        same = sum(takewhile(bool, map(eq, known, messages)))
        added, gone = messages[same:], known[same:]
        nodes = path[:same]
        nodes += message_paths.nodes(nodes[-1] if nodes else start, added)
        self.size -= sum(map(_size, gone))
        del known[same:]
        path[same:] = nodes[same:]
        for raw in added:
            if (size := _size(raw)) > _LONGEST_MESSAGE:
                break
            known.append(raw.copy())  # it does not keep all of its request
            self.size += size
        return nodes

    def learn(self, record: CallRecorded) -> None:
        """Takes in the record of another proxy; doing it again changes nothing."""
        self.note(record.seq)
        if record.tools_digest:
            self.tools.add(record.tools_digest)
        if record.seq in self.calls or (record.parent_seq is not None and record.parent_seq not in self.calls):
            return
        ids = record.prompt_delta + record.completion
        digest = self.digest(record.parent_seq)
        digest.update(ids)
        length = record.prompt_len + len(record.completion) // 4
        reply = record.reply
        tools = tuple((c["id"], c["function"]["name"]) for c in reply.get("tool_calls", ()))
        known = Known(
            record.seq, record.parent_seq, length, ids, ids_json(ids), digest, record.stop_id, tools,
            thought=first_thought(bool(reply.get("reasoning")), record.completion),
        )  # fmt: skip
        self.add(known, bytes.fromhex(record.path))
        start = bytes.fromhex(record.start)
        before = start if record.messages_from is None else self.ends.get(record.messages_from, start)
        self.nodes.update(message_paths.nodes(before, record.messages), (start,))

    def _chain(self, seq: int) -> list[Known]:
        chain: list[Known] = []
        at: int | None = seq
        while at is not None:
            chain.append(self.calls[at])
            at = chain[-1].parent
        return chain[::-1]


def _size(message: msgspec.Raw) -> int:
    return memoryview(message).nbytes + _MESSAGE_BYTES


class Book:
    """The sessions that this proxy knows."""

    def __init__(self, sessions: int = KNOWN_SESSIONS, size: int = KNOWN_BYTES) -> None:
        self._most, self._largest = sessions, size
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._size = 0

    def session(self, session_id: str) -> Session:
        """A session; one that was put out, or never seen, is empty."""
        if (session := self._sessions.get(session_id)) is None:
            session = self._sessions[session_id] = Session()
        self._sessions.move_to_end(session_id)
        return session

    def grew(self, session_id: str) -> None:
        """Notes that a session takes more; others are put out to make room."""
        if session := self._sessions.get(session_id):
            self._size += session.size - session.counted
            session.counted = session.size
        while len(self._sessions) > 1 and (len(self._sessions) > self._most or self._size > self._largest):
            self._size -= self._sessions.popitem(last=False)[1].counted

    def forget(self, session_id: str) -> None:
        """Drops a session that is over."""
        if session := self._sessions.pop(session_id, None):
            self._size -= session.counted
