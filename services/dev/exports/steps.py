"""Messages and replies as ATIF steps. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from services.collector.calls import Call
from services.dev.exports import atif
from services.dev.exports.content import Images, content_of
from services.dev.fates import TRAINED
from services.dev.transcript import Json
from shared.packing import unpack_floats, unpack_ids

_SOURCES: dict[str, Any] = {"system": "system", "developer": "system"}


class Steps:
    """Steps as they grow: what a tool gave belongs to the step that called it."""

    def __init__(self, images: Images) -> None:
        self.done: list[atif.Step] = []
        self._images = images

    def add_message(self, message: Json, copied: bool) -> None:
        """A message of a request."""
        role, content = message.get("role"), content_of(message.get("content"), self._images)
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
            "agent", content_of(reply.get("content"), self._images), copied, model_name=record.model,
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


def sums(steps: list[atif.Step]) -> atif.FinalMetrics:
    """Totals of the steps that have metrics."""
    metrics = [s.metrics for s in steps if s.metrics is not None]
    return atif.FinalMetrics(
        total_prompt_tokens=sum(m.prompt_tokens for m in metrics),
        total_completion_tokens=sum(m.completion_tokens for m in metrics),
        total_steps=len(steps),
    )
