"""The boundary between a harness's API and the one turn that the rest of the proxy knows.

A dialect is one file. It reads a request into a `Turn` (OpenAI chat, since that is what the engine speaks) and words the
engine's increments, the whole reply, token counts and errors in its own shape. It is pure: no I/O, no clock, no state between
calls; what its writer must remember of the request travels in `Turn.private`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from services.proxy.errors import Refused

Json = dict[str, Any]
Count = Callable[[int], bytes]
"""Words a number of tokens as the body of an answer."""


class Target(msgspec.Struct, frozen=True):
    """Where a request went: API path without the rollout's prefix (`/v1/messages`), query as sent, headers by name."""

    path: str
    query: str = ""
    headers: Mapping[str, str] = {}


class Turn(msgspec.Struct, frozen=True):
    """One model call as the harness asked for it, in OpenAI chat terms.

    Attributes:
        model: name that the harness asked for.
        messages: OpenAI chat messages, each as raw JSON; `developer` is `system` here.
        fields: the other fields of the OpenAI chat request for the engine (`tools`, `tool_choice`, `stop`, ...), raw JSON.
        stream: it wants server-sent events.
        constrained: it wants sampling under a grammar or a forced tool.
        max_tokens: most tokens that it wants in the reply, None if it set no limit.
        requested: the sampling parameters that it asked for, by OpenAI's names.
        media: a message holds an image or other media.
        count: where it only asks how many tokens the prompt has, words the answer; None for a call.
        private: the dialect's own, for its writer.
    """

    model: str
    messages: list[msgspec.Raw]
    fields: dict[str, msgspec.Raw]
    stream: bool = False
    constrained: bool = False
    max_tokens: int | None = None
    requested: Json = {}
    media: bool = False
    count: Count | None = None
    private: Any = None


class ToolDelta(msgspec.Struct, frozen=True):
    """An increment of a tool call: its first one has id and name, all of them may add to the arguments (a JSON text)."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Delta(msgspec.Struct, frozen=True):
    """An increment of a reply; never empty."""

    reasoning: str = ""
    content: str = ""
    tools: tuple[ToolDelta, ...] = ()


class ToolCall(msgspec.Struct, frozen=True):
    """A whole tool call. `arguments` is the text that the model wrote: usually JSON, not always."""

    id: str
    name: str
    arguments: str


class Usage(msgspec.Struct, frozen=True):
    """Tokens of a call: of the prompt, of them found in the prefix cache, and sampled."""

    prompt: int
    completion: int
    cached: int = 0


class Reply(msgspec.Struct, frozen=True):
    """A whole reply.

    Attributes:
        finish_reason: the engine's: `stop`, `length` or `tool_calls`.
        usage: token counts.
        stop_sequence: the stop string of the request that ended it; None if none did.
    """

    reasoning: str
    content: str
    tool_calls: list[ToolCall]
    finish_reason: str
    usage: Usage
    stop_sequence: str | None = None


class Writer(Protocol):
    """Words one reply. Streamed: `start`, `add` for each increment, `finish`; or `whole`. All of them give bytes to send."""

    def start(self, prompt_tokens: int) -> bytes:
        """The events before the first increment."""
        ...

    def add(self, delta: Delta) -> bytes:
        """The events of an increment; may be empty."""
        ...

    def finish(self, reply: Reply) -> bytes:
        """The events that end the reply, the terminal one last: with them the harness takes it for whole."""
        ...

    def whole(self, reply: Reply) -> bytes:
        """The body of a reply that is not streamed."""
        ...


class Dialect(Protocol):
    """One wire format of harnesses."""

    @property
    def api(self) -> str:
        """Its name, as it stands in `CallRecorded.api`: `openai.chat`, `openai.responses`, `anthropic.messages`, `gemini`."""
        ...

    def takes(self, path: str) -> bool:
        """Whether a path (without the rollout's prefix) is one of its routes."""
        ...

    def read(self, body: bytes, target: Target) -> Turn:
        """The turn that a request asks for.

        Raises:
            Refused: with status 400, naming what is wrong with it or what of it cannot be carried.
        """
        ...

    def writer(self, turn: Turn, reply_id: str, created: int) -> Writer:
        """Words the reply to a turn.

        Args:
            turn: of this dialect.
            reply_id: unique, of the characters A-Za-z0-9-; the ids in the reply are derived from it.
            created: unix seconds.
        """
        ...

    def error(self, error: Refused) -> bytes:
        """The body of an error response (JSON)."""
        ...

    def error_event(self, error: Refused) -> bytes:
        """The server-sent event that reports an error once a stream has begun. Empty where clients take a reported error for
        final and try a broken connection again."""
        ...

    @property
    def breaks_off(self) -> bool:
        """Whether the connection is broken off after `error_event`, since an orderly end would pass for a whole reply."""
        ...
