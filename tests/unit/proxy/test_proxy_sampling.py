"""What the engine is asked for, and what is noted of the harness's wishes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.dialects.base import Target, Turn
from services.proxy.dialects.openai_chat import OpenAIChat
from services.proxy.errors import Refused
from services.proxy.sampling import Sampling, call_seed, engine_request
from shared.config import Config, ProxyConfig

CHAT = OpenAIChat()
MESSAGES = [{"role": "user", "content": "hi"}]
STRICT = {"type": "function", "function": {"name": "bash", "strict": True}}


def read(body: bytes) -> Turn:
    return CHAT.read(body, Target("/v1/chat/completions"))


def sent(fields: dict[str, Any], sampling: Sampling | None = None, *, left: int = 4096, **proxy: Any) -> dict[str, Any]:
    turn = read(json.dumps({"messages": MESSAGES} | fields).encode())
    request = engine_request(turn, sampling or Sampling(), Config(proxy=ProxyConfig(**proxy)), attempt=1, seq=1)
    body: dict[str, Any] = json.loads(request.body(turn.messages, b"", left, stream=turn.stream, usage=bool(turn.private)))
    assert all(body[name] == value for name, value in request.sampling.items())
    return body


def test_ids_and_logprobs_are_always_asked_for() -> None:
    body = sent({"model": "gpt", "logprobs": False, "return_token_ids": False, "top_logprobs": None})
    assert body == {
        "messages": MESSAGES, "model": "policy", "logprobs": True, "top_logprobs": 0, "return_token_ids": True,
        "temperature": 1.0, "top_p": 1.0,
    }  # fmt: skip
    assert sent({"top_logprobs": 3})["top_logprobs"] == 3


@pytest.mark.parametrize(("session", "configured", "expected"), [(None, 0.7, 0.7), (0.3, 0.7, 0.3), (0.0, 0.7, 0.0)])
def test_temperature_is_the_sessions_then_the_configurations_never_the_harnesses(
    session: float | None, configured: float, expected: float
) -> None:
    body = sent({"temperature": 0.1, "top_p": 0.2}, Sampling(temperature=session), temperature=configured)
    assert (body["temperature"], body["top_p"]) == (expected, 1.0)


@given(
    harness=st.none() | st.integers(1, 100), completion=st.none() | st.integers(1, 100),
    session=st.none() | st.integers(1, 100), configured=st.integers(0, 100),
)  # fmt: skip
def test_max_tokens_is_the_smallest_limit_of_all(
    harness: int | None, completion: int | None, session: int | None, configured: int
) -> None:
    fields = {"max_tokens": harness, "max_completion_tokens": completion}
    body = sent(fields, Sampling(max_tokens=session), max_tokens=configured)
    limits = [m for m in (harness, completion, session, configured or None) if m is not None]
    assert body.get("max_tokens") == min(limits, default=None)
    assert "max_completion_tokens" not in body


def test_what_bends_the_distribution_or_reaches_into_the_engine_is_removed_and_noted() -> None:
    wishes = {"top_k": 5, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": 1, "repetition_penalty": 1.1,
              "logit_bias": {"1": 5}, "seed": 7, "stop": ["x"], "max_tokens": 4}  # fmt: skip
    inner = {"kv_transfer_params": {"prompt_token_ids": [1]}, "prompt_token_ids": [1], "include_reasoning": False}
    body = sent(wishes | inner | {"stream": True, "stream_options": {"include_usage": True}, "user": "u"})
    kept = {"stop", "max_tokens"}
    assert not (set(wishes) - kept | set(inner)) & set(body)
    assert (body["stop"], body["user"], body["stream_options"]) == (["x"], "u", {"include_usage": True})
    assert read(json.dumps({"messages": MESSAGES} | wishes | inner).encode()).requested == wishes


def test_messages_and_tools_are_passed_on_byte_for_byte() -> None:
    raw = b'{ "messages" :[{"role":"user","content":"\\u00e9 1e2", "x": 1.50}], "tools": [ {"type":"function"} ] }'
    turn = read(raw)
    request = engine_request(turn, Sampling(), Config(), attempt=1, seq=1)
    body = request.body(turn.messages, b"", 4096, stream=False, usage=False)
    assert b'[{"role":"user","content":"\\u00e9 1e2", "x": 1.50}]' in body
    assert b'[ {"type":"function"} ]' in body


def test_a_limit_that_the_served_length_cannot_keep_is_left_to_the_engine_and_its_true_value_recorded() -> None:
    assert "max_tokens" not in sent({"max_tokens": 4096}, left=4096)
    assert sent({"max_tokens": 4095}, left=4096)["max_tokens"] == 4095
    turn = read(json.dumps({"messages": MESSAGES, "max_tokens": 50}).encode())
    request = engine_request(turn, Sampling(), Config(), attempt=1, seq=1)
    assert [request.recorded(left)["max_tokens"] for left in (20, 50, 90)] == [20, 50, 50]


def test_ids_take_the_place_of_messages() -> None:
    turn = read(json.dumps({"messages": MESSAGES, "tools": [STRICT]}).encode())
    request = engine_request(turn, Sampling(), Config(), attempt=1, seq=1)
    body = json.loads(request.body(turn.messages, b"[1,2]", 10, stream=True, usage=True))
    assert (body["messages"], body["kv_transfer_params"]) == ([], {"prompt_token_ids": [1, 2]})
    assert (body["stream"], body["stream_options"], body["tools"]) == (True, {"include_usage": True}, [STRICT])


def test_a_session_with_a_seed_gives_every_call_its_own_repeatable_one() -> None:
    seeds = {call_seed(seed, attempt, seq) for seed in (0, 1) for attempt in (1, 2) for seq in range(1, 50)}
    assert len(seeds) == 4 * 49
    assert all(0 <= s < 2**31 for s in seeds)
    assert sent({"seed": 9}, Sampling(seed=3))["seed"] == call_seed(3, 1, 1) == 240111953
    assert "seed" not in sent({"seed": 9})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False), ({"tool_choice": "auto"}, False), ({"tool_choice": None}, False), ({"tool_choice": "required"}, True),
        ({"tool_choice": {"type": "function", "function": {"name": "bash"}}}, True),
        ({"response_format": {"type": "text"}}, False), ({"response_format": {"type": "json_object"}}, True),
        ({"structured_outputs": {"regex": "a"}}, True), ({"guided_json": None}, False), ({"guided_regex": "a"}, True),
        ({"tools": [STRICT]}, True), ({"tools": [STRICT], "tool_choice": "none"}, False),
        ({"tools": [{"type": "function", "function": {"name": "bash"}}]}, False),
    ],
)  # fmt: skip
def test_sampling_under_a_grammar_is_noticed(fields: dict[str, Any], expected: bool) -> None:
    assert read(json.dumps({"messages": MESSAGES} | fields).encode()).constrained is expected


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not valid JSON"), (b"{", "not valid JSON"), (b"\xff", "not valid JSON"), (b"[]", "not a chat"),
        (b'"text"', "not a chat"), (b"{}", "messages"), (b'{"messages": []}', "messages"), (b'{"messages": "hi"}', "messages"),
        (b'{"messages": [{"role": "user"}], "n": 2}', "n=2"), (b'{"messages": [{"role": "user"}], "n": 0}', "n=0"),
        (b'{"messages": [{}]}', "role"),
        (b'{"messages": [{}], "max_tokens": 0}', "max_tokens"), (b'{"messages": [{}], "max_tokens": "9"}', "max_tokens"),
        (b'{"messages": [{}], "stream": "yes"}', "stream"), (b'{"messages": [{}], "x":' + b"[" * 100_000, "not valid JSON"),
        (b'{"prompt": "hi"}', "messages"),
    ],
)  # fmt: skip
def test_a_body_that_is_not_a_chat_request_is_refused_with_the_reason(body: bytes, says: str) -> None:
    with pytest.raises(Refused, match=says) as refused:
        read(body)
    assert refused.value.status == 400
