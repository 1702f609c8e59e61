"""One call of a model and what came of it. Data only."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

End = Literal["done", "cut", "refused"]
"""How an answer ended: by itself, at its limit of tokens, or because the model or its endpoint would not give one."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message."""

    role: Literal["user", "assistant"]
    text: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """All that an answer depends on. Where the endpoint is and who pays is no part of it.

    Attributes:
        model: its name at the endpoint.
        api: what the endpoint speaks.
        structured: see `EndpointConfig.structured`.
        messages: the user's first, then by turns.
        name: of the schema.
        schema: JSON schema of the answer.
        max_tokens: of the answer.
        temperature: None leaves it to the endpoint.
    """

    model: str
    api: str
    structured: str
    messages: tuple[Said, ...]
    name: str
    schema: dict[str, Any]
    max_tokens: int
    temperature: float | None = None

    @property
    def key(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    @property
    def tokens(self) -> int:
        """More than the prompt has, in any language: two bytes a token."""
        said = sum(len(message.text.encode()) for message in self.messages)
        return (said + len(msgspec.json.encode(self.schema))) // 2


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint answered.

    Attributes:
        text: JSON, if the model did as it was told.
        end: how it ended.
        why: of a refusal, in the endpoint's words.
        tokens_in: of the prompt, as the endpoint counts them.
        tokens_out: of the answer.
    """

    text: str
    end: End
    why: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it is kept.

    Attributes:
        call: what was asked.
        answer: what came.
        role: that asked.
        run_id: run that paid for it.
        usd: that it cost.
        at: when it was asked, Unix time.
        seconds: that it took, with all its retries.
    """

    call: Call
    answer: Answer
    role: str
    run_id: str
    usd: float = 0.0
    at: float = 0.0
    seconds: float = 0.0
