"""Recorded calls with their prompts restored from deltas, and every promise of a record checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite

from shared.errors import FidelityError
from shared.events import CallRecorded
from shared.packing import digester, unpack_floats

ID_BYTES = 4
"""Bytes of one packed token id, and of one packed log-probability."""

REPLAY_GAP = 1e-3
"""Largest difference (nats) between the log-probs of a constrained reply and those without the constraint at which they count
as the policy's own."""

REPLAY = "replay"
"""Reason of the one token that the engine samples to score a reply again; nobody sees it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call with its prompt.

    Attributes:
        record: as it came.
        full: prompt and completion as packed uint32.
        digest: running hash of `full`, so that whoever extends it need not hash it again.
        stray: `full` has a placeholder of media that is no medium's.
    """

    record: CallRecorded
    full: bytes
    digest: blake2b
    stray: bool = False

    @property
    def seq(self) -> int:
        """Its number in the session."""
        return self.record.seq

    @property
    def prompt(self) -> bytes:
        """The whole prompt as packed uint32."""
        return self.full[: self.record.prompt_len * ID_BYTES]

    @property
    def free(self) -> bool:
        """Its log-probs are the policy's own: no grammar and no forced tool took part, or they made no difference."""
        gap = self.record.replay_gap
        return not self.record.constrained or (gap is not None and gap <= REPLAY_GAP)

    @property
    def trainable(self) -> bool:
        """Its tokens are the policy's own choice on the task: not a helper's call, not forced by a grammar."""
        return self.record.role in ("main", "sub", "summary") and self.free


def sampled(record: CallRecorded) -> int:
    """Tokens that were sampled for a call."""
    return len(record.completion) // ID_BYTES


def fates(records: Iterable[CallRecorded], reasons: Mapping[int, str], rest: str | None) -> Iterator[tuple[int, str | None]]:
    """(sampled tokens, reason why they are not trained or None) of calls, for `tokens.count`.

    Args:
        records: of the calls.
        reasons: by call number.
        rest: the reason of all other calls.
    """
    for record in records:
        yield sampled(record), reasons.get(record.seq, rest)
        if record.replay_gap is not None:
            yield 1, REPLAY


def restore(records: Iterable[CallRecorded]) -> list[Call]:
    """Calls of one session in the order of their numbers.

    A record may build on one with a higher number: of calls with equal ids the proxy takes any that it has seen.

    Raises:
        FidelityError: a parent is missing, a length or a digest does not match, a log-probability is missing or not finite.
    """
    calls: dict[int, Call] = {}
    waiting = sorted(records, key=lambda r: r.seq)
    while waiting:
        deferred = []
        for record in waiting:
            if record.parent_seq is None or record.parent_seq in calls:
                calls[record.seq] = _restored(record, calls)
            else:
                deferred.append(record)
        if len(deferred) == len(waiting):
            raise _broken(deferred[0], f"its parent, call {deferred[0].parent_seq}, is not there to restore its prompt from")
        waiting = deferred
    return [calls[seq] for seq in sorted(calls)]


def _restored(record: CallRecorded, calls: Mapping[int, Call]) -> Call:
    _check_completion(record)
    parent = None if record.parent_seq is None else calls[record.parent_seq]
    head, digest = (parent.full, parent.digest.copy()) if parent else (b"", digester())
    if len(head) != record.parent_len * ID_BYTES:
        raise _broken(record, f"it takes over {record.parent_len} tokens of a parent that has {len(head) // ID_BYTES}")
    length = len(head) + len(record.prompt_delta)
    if length != record.prompt_len * ID_BYTES:
        raise _broken(record, f"its prompt has {length / ID_BYTES:g} tokens, not {record.prompt_len}")
    digest.update(record.prompt_delta)
    if digest.hexdigest() != record.prompt_digest:
        raise _broken(record, "the digest of its prompt does not match")
    digest.update(record.completion)
    stray = record.stray_media or (parent is not None and parent.stray)
    return Call(record, b"".join((head, record.prompt_delta, record.completion)), digest, stray)


def _check_completion(record: CallRecorded) -> None:
    if len(record.completion) % ID_BYTES or len(record.completion) != len(record.logprobs):
        ids, logprobs = len(record.completion) / ID_BYTES, len(record.logprobs) / ID_BYTES
        raise _broken(record, f"it has {ids:g} sampled ids and {logprobs:g} log-probabilities")
    if not all(map(isfinite, unpack_floats(record.logprobs))):
        raise _broken(record, "a log-probability is not finite")


def _broken(record: CallRecorded, cause: str) -> FidelityError:
    return FidelityError(f"call {record.seq} of session {record.session_id}: {cause}")
