"""Teachers: models behind an OpenAI- or Anthropic-compatible API. It gives no token ids; their calls are recorded as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from services.proxy.dialects.base import Turn
from services.proxy.sampling import ENGINE_FIELDS, EngineRequest, Sampling
from services.proxy.teacher_anthropic import AnthropicTeacher
from shared.config import Config

_NOT_SENT = (*ENGINE_FIELDS, "n", "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs", "return_token_ids")
_STANDARD = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed", "stop")
"""What OpenAI's API has. A harness that speaks it may ask for more, which is passed on; what others ask for is not."""


class Chunks(Protocol):
    """One reply of a teacher."""

    def read(self, data: bytes) -> list[bytes]:
        """The OpenAI chat chunks (JSON) that an event stands for.

        Raises:
            FidelityError: the event cannot be read.
        """
        ...


class Teacher(Protocol):
    """An API of teachers."""

    @property
    def path(self) -> str:
        """Where calls go."""
        ...

    def headers(self, key: str) -> Mapping[str, str]:
        """What opens it; `key` may be empty."""
        ...

    def body(self, request: EngineRequest, messages: list[msgspec.Raw]) -> bytes:
        """The request for a stream.

        Raises:
            Refused: 400, something in it cannot be carried.
        """
        ...

    def chunks(self) -> Chunks:
        """Reads a reply."""
        ...


class OpenAITeacher:
    """`POST /v1/chat/completions`."""

    path = "/v1/chat/completions"

    def headers(self, key: str) -> Mapping[str, str]:
        """A bearer token."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: EngineRequest, messages: list[msgspec.Raw]) -> bytes:
        """The request as it is."""
        return request.body(messages, b"", 0, stream=True, usage=True)

    def chunks(self) -> OpenAITeacher:
        """Nothing need be remembered of a reply."""
        return self

    def read(self, data: bytes) -> list[bytes]:
        """The event is a chunk."""
        return [data]


TEACHERS: Mapping[str, Teacher] = {"openai": OpenAITeacher(), "anthropic": AnthropicTeacher()}
"""By `engine.api`."""


def teacher_request(turn: Turn, sampling: Sampling, config: Config) -> EngineRequest:
    """A turn for a teacher: what the harness asked for is kept, but for what the session overrides."""
    limits = [m for m in (turn.max_tokens, sampling.max_tokens, config.proxy.max_tokens or None) if m is not None]
    sent: dict[str, Any] = {name: turn.requested[name] for name in _STANDARD if name in turn.requested}
    sent |= {name: value for name, value in msgspec.structs.asdict(sampling).items() if value is not None}
    sent |= {"max_tokens": min(limits)} if limits else {}
    fields: dict[str, Any] = {name: raw for name, raw in turn.fields.items() if name not in _NOT_SENT}
    return EngineRequest(fields | sent | {"model": config.engine.served_name}, sent, None)
