"""What `openforge show` shows of a rollout, as data. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from services.collector.history import Attempt, Group, Rollout
from services.dev.fates import TRAINED, call_fate, group_state, outcome_line, reward_of
from services.dev.transcript import new_messages
from shared.events import CallRecorded, RolloutFailed, TokenCounts, TrajectoryDiscarded
from shared.packing import unpack_floats, unpack_ids

Decode = Callable[[int], str | None]
"""The text of a token id; None where no tokenizer is known."""


class Token(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sampled token: `mask` is 1 where it is trained, `logprob` the engine's (nats)."""

    id: int
    text: str | None = None
    mask: int
    logprob: float


class Call(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A recorded call.

    Attributes:
        seq: its number in the session.
        goes_on_from: call whose conversation its request goes on with.
        parent: call whose tokens its prompt begins with.
        fork: why the two differ.
        fate: `trained`, or why not.
        messages: new in the request, OpenAI chat.
        reply: as the harness saw it.
        tokens: the sampled ones, where they were asked for.
    """

    seq: int
    role: str
    thread: str = ""
    goes_on_from: int | None = None
    parent: int | None = None
    fork: str = ""
    prompt_tokens: int
    completion_tokens: int
    weight_version: int
    delivery: str
    finish_reason: str | None
    fate: str
    messages: list[dict[str, Any]]
    reply: dict[str, Any]
    tokens: list[Token] = []


class ShownAttempt(msgspec.Struct, kw_only=True):
    """An attempt: how it ended, its reward (None: it has none), and where its tokens went."""

    attempt: int
    outcome: str
    reward: float | None
    settled: str
    tokens: TokenCounts
    errored: list[int]
    lost: list[int]
    calls: list[Call]


class Shown(msgspec.Struct, kw_only=True):
    """A rollout with some of its attempts; `group` is what became of its group."""

    run_id: str
    rollout_id: str
    task: str
    harness: str
    purpose: str
    group_id: str
    group: str
    attempts: list[ShownAttempt]


def shown(run_id: str, rollout: Rollout, group: Group, numbers: list[int], policy: str, decode: Decode | None) -> Shown:
    """A rollout as it is shown.

    Args:
        numbers: of the attempts to show.
        policy: timeout policy of the run.
        decode: shows sampled tokens; None shows none.
    """
    attempts = [_attempt(rollout.attempts[n], rollout, group, policy, decode) for n in numbers]
    return Shown(
        run_id=run_id, rollout_id=rollout.rollout_id, task=rollout.task, harness=rollout.harness, purpose=rollout.purpose,
        group_id=group.group_id, group=group_state(group), attempts=attempts,
    )  # fmt: skip


def _attempt(attempt: Attempt, rollout: Rollout, group: Group, policy: str, decode: Decode | None) -> ShownAttempt:
    calls = [_call(c, call_fate(c.seq, attempt, rollout, group), decode) for c in attempt.records]
    return ShownAttempt(
        attempt=attempt.number,
        outcome=outcome_line(attempt, policy),
        reward=reward_of(attempt),
        settled=_settled(attempt),
        tokens=attempt.settled.tokens if attempt.settled else TokenCounts(),
        errored=attempt.sealed.errored if attempt.sealed else [],
        lost=attempt.sealed.lost if attempt.sealed else [],
        calls=calls,
    )


def _settled(attempt: Attempt) -> str:
    match attempt.settled:
        case None:
            return "not settled"
        case TrajectoryDiscarded() as told:
            detail = "" if isinstance(attempt.outcome, RolloutFailed) else f" ({told.detail})"
            return f"discarded: {told.reason}{detail}"
        case told:
            return f"{told.calls} calls, training rows: {told.rows}"


def _call(record: CallRecorded, fate: str, decode: Decode | None) -> Call:
    return Call(
        seq=record.seq, role=record.role, thread=record.thread, goes_on_from=record.messages_from, parent=record.parent_seq,
        fork=record.fork, prompt_tokens=record.prompt_len, completion_tokens=len(record.completion) // 4,
        weight_version=record.weight_version_start, delivery=record.delivery, finish_reason=record.finish_reason, fate=fate,
        messages=new_messages(record), reply=record.reply, tokens=_tokens(record, fate, decode) if decode else [],
    )  # fmt: skip


def _tokens(record: CallRecorded, fate: str, decode: Decode) -> list[Token]:
    pairs = zip(unpack_ids(record.completion), unpack_floats(record.logprobs), strict=True)
    return [Token(id=i, text=decode(i), mask=int(fate == TRAINED), logprob=p) for i, p in pairs]
