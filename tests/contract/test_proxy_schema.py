"""Requests that schemathesis draws from a schema of each API, some that fit it and some that break it in one place."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

from tests.unit.proxy.payloads import PAYLOADS
from tests.unit.proxy.test_proxy_fuzz import in_world
from tests.unit.proxy.wires import ROUTES, error_of
from tests.unit.proxy.world import World

Json = dict[str, Any]
_LIMIT_S = 5.0
_KINDS = ("role", "type")
"""Fields whose values say what an object is."""


def schema_of(example: Any, name: str = "") -> Json:
    """A JSON Schema of what looks like an example."""
    match example:
        case dict():
            fields = {key: schema_of(value, key) for key, value in example.items()}
            return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        case list():
            return {"type": "array", "items": {"anyOf": [schema_of(item) for item in example]}, "minItems": 1, "maxItems": 4}
        case str() if name in _KINDS:
            return {"const": example}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer", "minimum": 1, "maximum": 50}
        case float():
            return {"type": "number", "minimum": 0, "maximum": 1}
        case str():
            return {"type": "string", "maxLength": 20}
    return {"type": "null"}


def _operation(api: str) -> Json:
    schema = {"anyOf": [schema_of(payload) for payload in PAYLOADS[api]]}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"post": {"requestBody": body, "responses": {"200": {"description": "a reply"}}}}


_SCHEMA = schemathesis.openapi.from_dict(
    {
        "openapi": "3.1.0",
        "info": {"title": "model routes", "version": "1"},
        "paths": {ROUTES[api]: _operation(api) for api in PAYLOADS},
    }
)


def _cases(api: str) -> st.SearchStrategy[Any]:
    operation = _SCHEMA[ROUTES[api]]["POST"]
    return st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]).flatmap(
        lambda mode: operation.as_strategy(generation_mode=mode)
    )


@pytest.mark.parametrize("api", sorted(PAYLOADS))
def test_what_a_schema_allows_and_forbids_is_refused_or_served(api: str) -> None:
    @settings(
        max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.reuse, Phase.generate],
    )  # fmt: skip
    @given(st.lists(_cases(api), min_size=10, max_size=10))
    def check(cases: list[Any]) -> None:
        async def scenario(world: World, base: str) -> None:
            for case in cases:
                sent = case.as_transport_kwargs(base_url=base)
                content = sent.get("data") or json.dumps(sent.get("json")).encode()
                async with (
                    asyncio.timeout(_LIMIT_S),
                    world.http.request(case.method, base + ROUTES[api], data=content, params=sent["params"]) as response,
                ):
                    answer = await response.read()
                    assert 200 <= response.status < 500, (api, case.method, content, answer)
                    if response.status == 400:
                        error_of(api, json.loads(answer))

        asyncio.run(in_world(scenario))

    check()
