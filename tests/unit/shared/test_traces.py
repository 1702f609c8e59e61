"""Which spans messages make, and how they hang together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.bus.client import _trace_in
from shared.config import TracesConfig
from shared.events import (
    EVENTS,
    CallRecorded,
    Durations,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStart,
    RolloutTimedOut,
    RunStaged,
    RunStepped,
    SessionSealed,
    TokenCounts,
    TrajectoryAssembled,
    WeightsLoaded,
)
from shared.trace.context import Place, is_sampled, parse, place_of, rollout_place, traceparent
from shared.trace.spans import Span, spans_of
from shared.trace.tracer import Tracer

ABOUT: dict[str, Any] = {"run_id": "run-1", "rollout_id": "s1-g0-r0", "group_id": "s1-g0"}
OF_CALL: dict[str, Any] = {
    "session_id": "s1-g0-r0-a1", "api": "openai.chat", "model": "tiny", "prompt_len": 5, "prompt_delta": b"",
    "prompt_digest": "", "completion": np.arange(3, dtype=np.uint32).tobytes(), "logprobs": b"", "finish_reason": "stop",
    "weight_version_start": 0, "weight_version_end": 0,
}  # fmt: skip
START = RolloutStart(**ABOUT, group_size=1, task_dir="/t", harness="react", at=100.0)
FINISHED = RolloutFinished(
    **ABOUT, group_size=1, task="find", harness="react", reward=1.0, at=120.0,
    durations=Durations(queue_s=2, boot_s=1, agent_s=10, verify_s=3),
)  # fmt: skip
ON = TracesConfig(to="file")
FOREIGN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def call(seq: int = 1, **more: Any) -> CallRecorded:
    return CallRecorded(**(ABOUT | OF_CALL | {"seq": seq, "at": 110.0, "latency_s": 2.0} | more))


@dataclass
class Kept:
    """Keeps spans."""

    spans: list[Span] = field(default_factory=list)

    def take(self, spans: Sequence[Span]) -> None:
        self.spans += spans

    def named(self, name: str) -> Span:
        [span] = [span for span in self.spans if span.name == name]
        return span


def traced(*messages: Message, config: TracesConfig = ON, header: str = "") -> Kept:
    """What a process tells that is given a first message and publishes the others."""
    kept = Kept()
    tracer = Tracer(config, kept)
    tracer.delivered(messages[0], header)
    for message in messages:
        tracer.published(message)
    return kept


def test_a_rollout_is_one_trace_whose_spans_hang_together() -> None:
    sealed = SessionSealed(**ABOUT, session_id="s1-g0-r0-a1", calls=2)
    assembled = TrajectoryAssembled(**ABOUT, reward=1.0, calls=2, rows=1, tokens=TokenCounts(sampled=6, trained=6))
    kept = traced(START, call(1), call(2), sealed, FINISHED, assembled)
    assert {span.place.trace for span in kept.spans} == {rollout_place("run-1", "s1-g0-r0").trace}
    ids = {span.place.span for span in kept.spans}
    assert len(ids) == len(kept.spans) == 10
    [root] = [span for span in kept.spans if span.parent is None]
    assert (root.name, root.start, root.end) == ("rollout find", 100.0, 120.0)
    assert all(span.parent is None or span.parent.span in ids for span in kept.spans)


def test_the_stages_of_an_attempt_follow_one_another_to_its_end() -> None:
    spans = spans_of(FINISHED)
    took = [(s.name, s.start, s.end) for s in spans]
    assert took == [
        ("attempt 1", 104.0, 120.0), ("queue", 104.0, 106.0), ("boot", 106.0, 107.0), ("agent", 107.0, 117.0),
        ("verify", 117.0, 120.0), ("rollout find", 104.0, 120.0),
    ]  # fmt: skip
    assert spans[0].attributes["openforge.reward"] == 1.0


def test_only_the_last_attempt_ends_the_rollout() -> None:
    failed = RolloutFailed(**ABOUT, group_size=1, task="find", harness="react", reason="SandboxError", final=False, at=110.0)
    kept = traced(
        START, failed, RolloutTimedOut(**ABOUT | {"attempt": 2}, group_size=1, task="find", harness="react", limit_s=1)
    )
    assert [(s.name, s.error) for s in kept.spans] == [("attempt 1", "SandboxError"), ("attempt 2", ""), ("rollout find", "")]
    assert kept.named("attempt 1").attributes["error.type"] == "SandboxError"
    assert kept.named("attempt 2").attributes["openforge.reason"] == "AgentTimeout"


def test_a_call_is_told_in_the_words_of_the_conventions_and_without_its_content() -> None:
    sent = msgspec.Raw(b'{"role":"user","content":"secret question"}')
    made = call(messages=[sent], reply={"role": "assistant", "content": "secret answer"}, sampling={"temperature": 1, "n": [1]})
    [span] = traced(made).spans
    said = span.attributes
    assert (span.name, span.client, span.start, span.end) == ("chat tiny", True, 108.0, 110.0)
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (5, 3)
    assert (said["gen_ai.request.model"], said["gen_ai.response.finish_reasons"]) == ("tiny", ["stop"])
    assert (said["gen_ai.request.temperature"], said["gen_ai.operation.name"]) == (1, "chat")
    assert "secret" not in repr(span)


def test_content_is_told_where_it_is_asked_for() -> None:
    sent = [
        msgspec.Raw(b'{"role":"user","content":[{"type":"text","text":"question"},{"type":"image_url","image_url":{}}]}'),
        msgspec.Raw(b'{"role":"tool","tool_call_id":"c1","content":"done"}'), msgspec.Raw(b"17"),
    ]  # fmt: skip
    reply = {"role": "assistant", "reasoning_content": "hm", "tool_calls": [{"id": "c2", "function": {"name": "ls"}}, "odd"]}
    [span] = traced(call(messages=sent, reply=reply), config=TracesConfig(to="file", content=True)).spans
    asked, [told] = (json.loads(str(span.attributes[f"gen_ai.{way}.messages"])) for way in ("input", "output"))
    assert [m["role"] for m in asked] == ["user", "tool", "user"]
    assert asked[0]["parts"][0] == {"type": "text", "content": "question"}
    assert asked[1]["parts"] == [{"type": "tool_call_response", "id": "c1", "response": "done"}]
    assert [part["type"] for part in told["parts"]] == ["reasoning", "tool_call", "text"]


def test_a_group_links_to_its_attempts_and_a_step_to_its_groups() -> None:
    assembled = TrajectoryAssembled(**ABOUT, reward=1.0, calls=2, rows=1, tokens=TokenCounts(), at=120.0)
    group = GroupCompleted(run_id="run-1", group_id="s1-g0", task="find", at=125.0)
    metrics = {"timing_s/step": 10.0, "timing_s/gen": 4.0, "timing_s/update": 5.0, "timing_s/push": 1.0}
    step = RunStepped(run_id="run-1", step=1, version=1, metrics=metrics, groups=["s1-g0"], at=140.0)
    kept = traced(assembled, group, WeightsLoaded(run_id="run-1", version=1, engine="e", push_s=1.0, at=140.0), step)
    closed, stepped, push = kept.named("group find"), kept.named("step 1"), kept.spans[2]
    assert (closed.start, closed.end, closed.links) == (120.0, 125.0, (place_of(FINISHED),))
    assert stepped.links == (closed.place,) == kept.named("trajectory assembled").links
    assert (push.name, push.parent) == ("push", stepped.place)
    assert [(s.name, s.start, s.end) for s in kept.spans[4:]] == [
        ("gen", 130.0, 134.0), ("update", 134.0, 139.0), ("push", 139.0, 140.0),
    ]  # fmt: skip
    assert {s.place.trace for s in kept.spans[2:]} == {stepped.place.trace}


def test_steps_that_change_no_weights_are_traces_of_their_own() -> None:
    skipped = [RunStepped(run_id="r", step=n, version=0, metrics={"training/skipped": 1.0}) for n in (1, 2)]
    assert len({place_of(step) for step in skipped}) == 2


def test_a_group_without_variance_did_not_fail() -> None:
    kept = traced(GroupDiscarded(run_id="run-1", group_id="s1-g0", task="find", reason="no_variance"))
    assert (kept.spans[0].error, kept.spans[0].attributes["openforge.outcome"]) == ("", "no_variance")


def test_a_rollout_that_somebody_elses_trace_asked_for_links_to_it() -> None:
    root = traced(START, FINISHED, header=FOREIGN).named("rollout find")
    assert parse(FOREIGN) in root.links
    own = traced(START, FINISHED, header=traceparent(rollout_place("run-1", "s1-g0-r0"), True)).named("rollout find")
    garbage = traced(START, FINISHED, header="00-zz").named("rollout find")
    assert len(own.links) == len(garbage.links) == len(root.links) - 1


def test_a_rollout_that_was_not_asked_for_begins_when_it_was_scheduled() -> None:
    scheduled = RolloutScheduled(**ABOUT, group_size=1, task="find", harness="react", at=101.0)
    assert traced(scheduled, FINISHED).named("rollout find").start == 101.0


def test_every_service_traces_the_same_share_of_rollouts() -> None:
    config = TracesConfig(to="file", sample=0.25)
    names = [f"s1-g{n}-r0" for n in range(400)]
    messages = [msgspec.structs.replace(FINISHED, rollout_id=name) for name in names]
    kept = [name for name, m in zip(names, messages, strict=True) if traced(m, config=config).spans]
    assert 60 < len(kept) < 140
    flags = {name: Tracer(config, Kept()).header(msgspec.structs.replace(START, rollout_id=name))[-1] for name in names}
    assert [name for name in names if flags[name] == "1"] == kept
    assert traced(GroupCompleted(run_id="run-1", group_id="s1-g0"), config=TracesConfig(to="file", sample=0.0)).spans


def test_what_is_no_part_of_a_trace_has_no_header() -> None:
    assert Tracer(ON, Kept()).header(RunStaged(run_id="run-1", stage="train")) == ""


def test_a_span_that_cannot_be_made_fails_no_message(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def take(self, spans: Sequence[Span]) -> None:
            raise RuntimeError("no")

    Tracer(ON, Broken()).published(FINISHED)
    assert "no spans are made of" in caplog.text


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_a_header_that_was_written_is_read_as_it_was(trace: int, span: int, sampled: bool) -> None:
    header = traceparent(Place(trace, span), sampled)
    assert parse(header) == Place(trace, span)
    assert _trace_in(f"NATS/1.0\r\nNats-Msg-Id: x\r\nTraceparent: {header}\r\n\r\n".encode()) is not None
    assert is_sampled(Place(trace, span), 1.0)
    assert not is_sampled(Place(trace, span), 0.0)


@given(st.integers(0, 54), st.sampled_from("0123456789abcdefgF-\n"), st.text(max_size=3))
def test_any_header_is_a_span_or_nothing(at: int, other: str, more: str) -> None:
    text = FOREIGN[:at] + other + FOREIGN[at + 1 :] + more
    place = parse(text)
    assert place is None or (text[3:35] == f"{place.trace:032x}" and all(place) and not text.startswith("ff"))


@pytest.mark.parametrize(
    "header", ["00-" + "0" * 32 + "-b7ad6b7169203331-01", FOREIGN + "-more", FOREIGN.upper(), "ff" + FOREIGN[2:]]
)
def test_headers_that_are_none_by_the_letter_are_not_read(header: str) -> None:
    assert parse(header) is None


@given(st.binary(max_size=200))
def test_no_headers_of_strangers_are_passed_on(headers: bytes) -> None:
    passed = _trace_in(headers + b"\r\nStatus: 503\r\n")
    assert passed is None or passed.count(b"\r\n") == 3


def test_a_message_of_every_type_has_a_place_or_is_known_to_have_none() -> None:
    tasks = {f"task.{stage}" for stage in ("proposed", "rejected", "built", "tried", "refined", "accepted")}
    apart = {"run.staged", "run.evaluated", "run.finished"} | tasks
    from shared.trace.context import _PLACES

    assert {str(kind.__struct_config__.tag) for kind in EVENTS if kind not in _PLACES} == apart
