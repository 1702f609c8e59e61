from __future__ import annotations

import msgspec
import pytest

from shared.errors import POLICIES, AgentTimeout, ForgeError, InvalidId, SandboxError, policy_of
from shared.events import MESSAGES, CallRecorded, Message, RunStaged, SessionSealed, decode, encode, tag_of
from shared.ids import check_id, new_run_id, session_id, slug
from shared.packing import pack_floats, pack_ids
from shared.subjects import dead_subject, pattern_of, subject_of, tap_pattern


def call() -> CallRecorded:
    return CallRecorded(
        run_id="run", rollout_id="r1", group_id="g", session_id="r1-a1", seq=3, api="openai.chat", model="m", prompt_len=2,
        prompt_delta=pack_ids([1, 2]), prompt_digest="0d", completion=pack_ids([3]), logprobs=pack_floats([-0.5]),
        finish_reason="stop", weight_version_start=1, weight_version_end=1,
    )  # fmt: skip


def test_a_message_survives_the_wire_and_stays_readable() -> None:
    message = call()
    body = encode(message)
    assert decode(body) == message
    assert msgspec.json.decode(body)["completion"] == "AwAAAA=="


def test_unknown_fields_are_tolerated_and_unknown_types_are_not() -> None:
    raw = msgspec.json.decode(encode(call()))
    assert isinstance(decode(msgspec.json.encode({**raw, "later": 1})), CallRecorded)
    with pytest.raises(msgspec.ValidationError, match="unknown message type"):
        decode(msgspec.json.encode({**raw, "type": "call.dreamt"}))
    with pytest.raises(msgspec.DecodeError):
        decode(b"not json")


def test_event_ids_are_a_function_of_the_thing_alone() -> None:
    sealed = [SessionSealed(run_id="run", rollout_id="r1", group_id="g", session_id="r1-a1", calls=1, at=t) for t in (1.0, 2.0)]
    assert sealed[0].event_id == sealed[1].event_id
    assert RunStaged(run_id="run", stage="train", done=1).event_id != RunStaged(run_id="run", stage="train", done=2).event_id


def test_tags_are_unique_and_two_words() -> None:
    tags = [tag_of(t) for t in MESSAGES]
    assert len(set(tags)) == len(tags)
    assert all(len(t.split(".")) == 2 for t in tags)


def test_subjects_and_patterns_match() -> None:
    assert subject_of(call()) == "forge.v1.evt.call.recorded.run.r1"
    assert pattern_of(CallRecorded, "run") == "forge.v1.evt.call.recorded.run.*"
    assert dead_subject("forge.v1.evt.call.recorded.run.r1") == "forge.v1.dead.evt.call.recorded.run.r1"
    assert tap_pattern("call.recorded") == "forge.v1.*.call.recorded.*.*"
    assert tap_pattern("evt.rollout.*", "run") == "forge.v1.evt.rollout.*.run.*"
    assert tap_pattern("forge.v1.>") == "forge.v1.>"


@pytest.mark.parametrize("bad", ["", "a.b", "a b", "a_b", "a*", ">", "x" * 121])
def test_ids_that_would_break_a_subject_are_refused(bad: str) -> None:
    with pytest.raises(InvalidId):
        check_id(bad)
    assert check_id(slug(bad))


def test_run_ids_are_legal_and_differ() -> None:
    assert check_id(new_run_id()) != new_run_id()
    assert session_id("r1", 2) == "r1-a2"


def test_every_message_has_a_legal_subject_token() -> None:
    class Odd(Message, frozen=True, kw_only=True, tag="odd.one"):
        @property
        def key(self) -> str:
            return "a.b"

    with pytest.raises(InvalidId):
        subject_of(Odd(run_id="run"))


def test_policies_follow_the_nearest_ancestor() -> None:
    class Special(SandboxError):
        pass

    assert policy_of(Special) == POLICIES[SandboxError]
    assert policy_of(AgentTimeout("x")).grade
    assert not policy_of(ForgeError("x")).retry
