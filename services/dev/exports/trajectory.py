"""A rollout as an ATIF document: its last main conversation, with all others as trajectories beside it. Pure.

A call that several conversations share is told once with its metrics; elsewhere its steps are marked as copied context.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from services.collector.calls import Call, restore
from services.dev.exports import atif
from services.dev.exports.content import content_of
from services.dev.exports.selection import Chosen
from services.dev.fates import TRAINED, call_fate
from services.dev.transcript import Conversation, Json, conversations, new_messages
from shared.ids import session_id
from shared.packing import unpack_floats, unpack_ids

_SOURCES: dict[str, Any] = {"system": "system", "developer": "system", "assistant": "agent"}


def document(chosen: Chosen) -> atif.Trajectory | None:
    """The document of a rollout; None where no reply reached its harness.

    Raises:
        FidelityError: its records contradict each other.
    """
    found = conversations(chosen.attempt.calls, chosen.attempt.sealed)
    if not found:
        return None
    first = max(found, key=lambda c: (c.last.role == "main", c.last.seq))
    calls = {c.seq: c for c in restore(chosen.attempt.records)}
    told: set[int] = set()
    made = [_trajectory(n, c, chosen, calls, told) for n, c in enumerate([first, *(c for c in found if c is not first)])]
    extra = {
        "reward": chosen.reward, "task": chosen.rollout.task, "purpose": chosen.rollout.purpose,
        "group_id": chosen.group.group_id, "attempt": chosen.attempt.number,
    }  # fmt: skip
    return replace(made[0], subagent_trajectories=made[1:] or None, extra={**(made[0].extra or {}), **extra})


def without_ids(trajectory: atif.Trajectory) -> atif.Trajectory:
    """The same without token ids and what goes with them."""
    none = {"prompt_token_ids": None, "completion_token_ids": None, "logprobs": None}
    steps = [s if s.metrics is None else replace(s, metrics=replace(s.metrics, **none)) for s in trajectory.steps]
    others = [without_ids(t) for t in trajectory.subagent_trajectories or ()]
    return replace(trajectory, steps=steps, subagent_trajectories=others or None)


def _trajectory(
    number: int, conversation: Conversation, chosen: Chosen, calls: Mapping[int, Call], told: set[int]
) -> atif.Trajectory:
    """One conversation; its calls are added to those that were told."""
    steps = _Steps()
    for record in conversation.calls:
        copied = record.seq in told
        for message in new_messages(record):
            steps.add_message(message, copied)
        fate = call_fate(record.seq, chosen.attempt, chosen.rollout, chosen.group)
        steps.add_reply(calls[record.seq], fate, copied)
        told.add(record.seq)
    rollout = chosen.rollout
    return atif.Trajectory(
        schema_version=atif.VERSION,
        session_id=session_id(rollout.rollout_id, chosen.attempt.number),
        trajectory_id=f"{rollout.rollout_id}-{number}" if number else rollout.rollout_id,
        agent=atif.Agent(
            name=rollout.harness, version="unknown", model_name=conversation.last.model,
            tool_definitions=conversation.tools or None,
        ),
        steps=steps.done,
        final_metrics=_sums(steps.done),
        extra={"role": conversation.last.role, **({"thread": conversation.last.thread} if conversation.last.thread else {})},
    )  # fmt: skip


class _Steps:
    """Steps as they grow: what a tool gave belongs to the step that called it."""

    def __init__(self) -> None:
        self.done: list[atif.Step] = []

    def add_message(self, message: Json, copied: bool) -> None:
        """A message of a request."""
        role, content = message.get("role"), content_of(message.get("content"))
        if role == "tool" and self.done and self.done[-1].source == "agent":
            self._add_result(message.get("tool_call_id"), content)
        elif role == "assistant":  # the harness's own words in the model's mouth: no call stands behind them
            self._add("agent", content, copied, tool_calls=_tool_calls(message))
        else:
            self._add(_SOURCES.get(str(role), "user"), content, copied)

    def add_reply(self, call: Call, fate: str, copied: bool) -> None:
        """A sampled reply."""
        record, reply = call.record, call.record.reply
        extra = {"seq": record.seq, **({"fork": record.fork} if record.fork else {})}
        self._add(
            "agent", content_of(reply.get("content")), copied, model_name=record.model,
            reasoning_content=reply.get("reasoning"), tool_calls=_tool_calls(reply),
            metrics=None if copied else _metrics(call, fate), extra=extra,
            timestamp=datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds"),
        )  # fmt: skip

    def _add(self, source: str, content: atif.Content, copied: bool, **fields: Any) -> None:
        number = len(self.done) + 1
        fields |= {"source": source, "is_copied_context": copied or None}
        self.done.append(atif.Step(step_id=number, message=content, **fields))

    def _add_result(self, call_id: str | None, content: atif.Content) -> None:
        step = self.done[-1]
        called = {c.tool_call_id for c in step.tool_calls or ()}
        result = atif.Result(source_call_id=call_id if call_id in called else None, content=content)
        before = step.observation.results if step.observation else []
        self.done[-1] = replace(step, observation=atif.Observation(results=[*before, result]))


def _tool_calls(message: Json) -> list[atif.ToolCall] | None:
    made = []
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        made.append(
            atif.ToolCall(
                tool_call_id=call.get("id") or f"call-{number}",
                function_name=function.get("name") or "",
                arguments=_arguments(function.get("arguments")),
            )
        )
    return made or None


def _arguments(text: Any) -> dict[str, Any]:
    """Arguments as an object; what the model wrote that is none stands in it as `raw`."""
    try:
        read = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, TypeError):
        read = None
    return read if isinstance(read, dict) else {"raw": text}


def _metrics(call: Call, fate: str) -> atif.Metrics:
    record = call.record
    extra = {
        "weight_version": record.weight_version_start, "finish_reason": record.finish_reason, "trained": fate == TRAINED,
        **({} if fate == TRAINED else {"untrained": fate}),
    }  # fmt: skip
    ids = record.tokens  # a teacher gives none
    return atif.Metrics(
        prompt_tokens=record.prompt_len,
        completion_tokens=len(record.completion) // 4,
        prompt_token_ids=unpack_ids(call.prompt) if ids else None,
        completion_token_ids=unpack_ids(record.completion) if ids else None,
        logprobs=unpack_floats(record.logprobs) if ids else None,
        extra=extra,
    )


def _sums(steps: list[atif.Step]) -> atif.FinalMetrics:
    metrics = [s.metrics for s in steps if s.metrics is not None]
    return atif.FinalMetrics(
        total_prompt_tokens=sum(m.prompt_tokens for m in metrics),
        total_completion_tokens=sum(m.completion_tokens for m in metrics),
        total_steps=len(steps),
    )
