"""Rollouts made up for the collector's benchmark: one conversation each, recorded as the proxy does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from shared.events import CallRecorded, RolloutFinished, SessionSealed, encode
from shared.ids import session_id
from shared.packing import digester, pack_floats, pack_ids

GROUP_SIZE = 2
"""No group is ever whole: only one of its rollouts comes."""

_TOKEN_BYTES = 4 * 4 / 3
"""Of a token id or a log-prob in JSON: four bytes as base64."""


def conversation(run: str, number: int, calls: int, delta: int, completion: int, size: int = 0) -> Iterator[CallRecorded]:
    """The records of a rollout.

    Args:
        run: id of the run.
        number: of the rollout.
        calls: how many it has.
        delta: tokens by which each prompt is longer than the last and its reply.
        completion: tokens of each reply.
        size: bytes that a record has as a message, at least; what is missing is made up by text.
    """
    news, reply = pack_ids(range(delta)), pack_ids(range(completion))
    logprobs, running, length = pack_floats(-n / 100 for n in range(completion)), digester(), 0
    for seq in range(1, calls + 1):
        running.update(news)
        record = CallRecorded(
            **_about(run, number), session_id=session_id(f"rollout-{number}", 1), seq=seq, api="openai.chat", model="policy",
            parent_seq=seq - 1 or None, parent_status="extends" if length else "root", parent_len=length,
            prompt_len=length + delta, prompt_delta=news, prompt_digest=running.hexdigest(), completion=reply,
            logprobs=logprobs, finish_reason="stop", weight_version_start=0, weight_version_end=0,
        )  # fmt: skip
        running.update(reply)
        length += delta + completion
        yield _padded(record, size)


def record_of(run: str, number: int, calls: int, size: int) -> Iterator[CallRecorded]:
    """The records of a rollout of `calls` calls that have `size` bytes each; half of that are tokens."""
    tokens = int(size / 2 / _TOKEN_BYTES)
    return conversation(run, number, calls, delta=tokens // 2, completion=tokens // 4, size=size)


def sealed(run: str, number: int, calls: int) -> SessionSealed:
    """The sealing of a rollout's session."""
    return SessionSealed(**_about(run, number), session_id=session_id(f"rollout-{number}", 1), calls=calls)


def finished(run: str, number: int) -> RolloutFinished:
    """The end of a rollout."""
    return RolloutFinished(**_about(run, number), group_size=GROUP_SIZE, task="bench", harness="bench", reward=1.0)


def _about(run: str, number: int) -> dict[str, Any]:
    return {"run_id": run, "rollout_id": f"rollout-{number}", "group_id": f"group-{number}"}


def _padded(record: CallRecorded, size: int) -> CallRecorded:
    message = {"role": "user", "content": ""}
    bare = msgspec.structs.replace(record, messages=[msgspec.Raw(msgspec.json.encode(message))])
    message["content"] = "x" * max(0, size - len(encode(bare)))
    return msgspec.structs.replace(bare, messages=[msgspec.Raw(msgspec.json.encode(message))])
