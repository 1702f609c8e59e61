"""What the Responses dialect sends is what OpenAI's own client library expects."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import msgspec
import pytest

from services.proxy.dialects.base import ToolCall
from services.proxy.errors import Refused, unavailable
from tests.unit.proxy.responses_client import AGENTS, DIALECT, PATCH, SEARCH, SHELL, deltas, events, read, reply, streamed

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

TURN = read(tools=[SHELL, PATCH, AGENTS, SEARCH])
REPLY = reply(
    "hm",
    "I do.",
    [
        ToolCall("c1", "shell", '{"cmd":"ls"}'),
        ToolCall("c2", "apply_patch", '{"input": "*** Begin"}'),
        ToolCall("c3", "agents__wait", "{}"),
        ToolCall("c4", "tool_search", '{"query": "x"}'),
    ],
    "tool_calls",
)


@pytest.fixture(scope="module")
def check() -> Any:
    """Validates an object against one of the client library's types."""
    types, pydantic = importlib.import_module("openai.types.responses"), importlib.import_module("pydantic")
    adapter = cache(lambda name: pydantic.TypeAdapter(getattr(types, name)))
    return lambda name, value: adapter(name).validate_python(value, strict=True)


@pytest.mark.parametrize("finish_reason", ["tool_calls", "length"])
def test_events_have_the_types_of_the_library(check: Any, finish_reason: str) -> None:
    whole = msgspec.structs.replace(REPLY, finish_reason=finish_reason)
    kinds = {type(check("ResponseStreamEvent", e)).__name__ for e in events(streamed(TURN, deltas(whole), whole))}
    assert len(kinds) == 15


def test_the_response_object_has_the_type_of_the_library(check: Any) -> None:
    response = check("Response", msgspec.json.decode(DIALECT.writer(TURN, "r-1", 0).whole(REPLY)))
    assert response.output_text == "I do."
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "custom_tool_call",
        "function_call",
        "tool_search_call",
    ]


@pytest.mark.parametrize("error", [unavailable("down"), Refused(429, "busy", "later"), Refused(400, "invalid_request", "no")])
def test_a_failure_has_the_type_of_the_library(check: Any, error: Refused) -> None:
    (event,) = events(DIALECT.error_event(error))
    assert check("ResponseFailedEvent", event).response.error.message == str(error)
