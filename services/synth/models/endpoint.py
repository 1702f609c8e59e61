"""What the client asks of an API, and what APIs have in common."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Protocol

import msgspec

from services.synth.models.calls import Answer, Call
from shared.config import EndpointConfig
from shared.errors import ConfigError, EngineError, ForgeError, MakerError

TOOL = "answer"
"""Name of the one tool, where an answer is the call of a tool."""
_ASKED_WRONGLY = (400, 413, 422)
_FENCED = re.compile(r"\A\s*```[a-z]*\s*\n(.*?)\n\s*```\s*\Z", re.S)


class Endpoint(Protocol):
    """A model behind an API."""

    async def ask(self, call: Call) -> Answer:
        """The answer; calls that are turned down for now, fail or hang are made again.

        Raises:
            EngineError: none came.
            MakerError: the endpoint takes no such call, and says why.
        """
        ...

    async def close(self) -> None:
        """Closes its connections."""
        ...


def key_of(settings: EndpointConfig, env: Mapping[str, str] | None = None) -> str:
    """The API key of an endpoint; empty if it wants none.

    Raises:
        ConfigError: the environment variable is not set.
    """
    if not settings.key_env:
        return ""
    key = (os.environ if env is None else env).get(settings.key_env, "")
    if not key:
        raise ConfigError(
            f"the key of the model {settings.model!r} is not there: set the environment variable {settings.key_env}"
        )
    return key


def failure(settings: EndpointConfig, key: str, status: int | None, said: str) -> ForgeError:
    """What follows from an endpoint's error, without the key in it.

    Args:
        settings: of the endpoint.
        key: that may stand in its answer.
        status: of HTTP; None if none came.
        said: by endpoint or client.
    """
    if key:
        said = said.replace(key, "***")
    where = f"{settings.model} at {settings.url}"
    if status in _ASKED_WRONGLY:
        return MakerError(f"{where} does not take the call (HTTP {status}): {said[:600]}")
    if status in (401, 403):
        return EngineError(
            f"{where} does not let us in (HTTP {status}); is {settings.key_env or 'key_env'} right? {said[:300]}"
        )
    if status == 404:
        return EngineError(f"{where}: no such model or path (HTTP 404); are model, api and base_url right? {said[:300]}")
    what = f"HTTP {status}" if status else "no answer"
    return EngineError(f"{where}: {what}, {settings.retries} retries later, too: {said[:300]}")


def with_schema(call: Call) -> str:
    """The first message of a call whose schema has to stand in the prompt."""
    schema = msgspec.json.format(msgspec.json.encode(call.schema)).decode()
    return f"{call.messages[0].text}\n\nAnswer with one JSON object and nothing else. It has to fit this JSON schema:\n{schema}"


def texts(call: Call) -> list[dict[str, str]]:
    """The messages of a call, in words that both APIs have."""
    said = [{"role": message.role, "content": message.text} for message in call.messages]
    if call.structured == "prompt":
        said[0]["content"] = with_schema(call)
    return said


def unfenced(text: str) -> str:
    """The text inside a code fence that is around all of it."""
    found = _FENCED.match(text)
    return found[1] if found else text
