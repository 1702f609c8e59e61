"""What the engine answered, read out of its chat replies: streamed or whole, the same fields come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from services.proxy.errors import broken
from services.proxy.sse import event_data
from shared.errors import FidelityError

_TokenId = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
_LARGEST = 3.0e38  # of a float32, in which log-probs are kept


class _TokenLogprob(msgspec.Struct):
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_TokenLogprob] | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    delta: _Message | None = None
    message: _Message | None = None
    token_ids: list[_TokenId] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] = []
    prompt_token_ids: list[_TokenId] | None = None
    error: str | dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(_Reply)


@dataclass(slots=True)
class Answer:
    """A reply of the engine, as far as it has come.

    Attributes:
        prompt: token ids that the engine saw; None until they came.
        completion: sampled token ids, a sampled stop token included.
        logprobs: natural log, one per sampled id.
        finish_reason: set by the last event with tokens.
    """

    prompt: list[int] | None = None
    completion: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    _content: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _tools: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add_event(self, event: bytes) -> bool:
        """Takes in one server-sent event; True once the reply is finished.

        Raises:
            Refused: the engine reported an error inside the stream.
            FidelityError: the event cannot be read.
        """
        data = event_data(event)
        if data and data != b"[DONE]":
            self._add(data)
        return self.finish_reason is not None

    def add_whole(self, body: bytes) -> None:
        """Takes in a reply that was not streamed.

        Raises:
            Refused, FidelityError: as `add_event`; also when the reply is not finished.
        """
        self._add(body)
        if self.finish_reason is None:
            raise broken("the engine's reply has no finish_reason")

    @property
    def reply(self) -> dict[str, Any]:
        """The assistant message as the harness saw it."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._content)}
        if self._reasoning:
            message["reasoning"] = "".join(self._reasoning)
        if self._tools:
            message["tool_calls"] = [self._tools[i] for i in sorted(self._tools)]
        return message

    def check(self) -> list[int]:
        """The prompt's ids, once it is certain that the record will be exact.

        Raises:
            FidelityError: prompt ids are missing, ids and log-probs do not pair up, or a log-prob is not finite.
        """
        if not self.prompt:
            raise FidelityError("the engine gave no prompt_token_ids; does it support return_token_ids?")
        if len(self.completion) != len(self.logprobs):
            raise FidelityError(f"the engine gave {len(self.completion)} token ids and {len(self.logprobs)} log-probs")
        if not all(-_LARGEST <= p <= _LARGEST for p in self.logprobs):
            raise FidelityError("the engine gave a log-prob that is not finite")
        return self.prompt

    def _add(self, data: bytes) -> None:
        try:
            reply = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise FidelityError(f"the engine's reply cannot be read: {e}") from None
        if reply.error is not None:
            raise broken(_words(reply.error))
        if reply.prompt_token_ids is not None:
            self.prompt = reply.prompt_token_ids
        for choice in reply.choices:
            self._add_choice(choice)

    def _add_choice(self, choice: _Choice) -> None:
        self.completion += choice.token_ids or ()
        if choice.logprobs is not None:
            self.logprobs += [p.logprob for p in choice.logprobs.content or ()]
        message = choice.delta or choice.message
        if message is not None:
            self._add_message(message, whole=choice.delta is None)
        self.finish_reason = choice.finish_reason or self.finish_reason

    def _add_message(self, message: _Message, *, whole: bool) -> None:
        if message.content:
            self._content.append(message.content)
        if message.reasoning:
            self._reasoning.append(message.reasoning)
        for at, part in enumerate(message.tool_calls or ()):
            call = self._tools.setdefault(
                at if whole else part.index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["id"] = part.id or call["id"]
            if part.function is not None:
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""


def _words(error: str | dict[str, Any]) -> str:
    """What an error says: its `message` if it has one."""
    return str(error.get("message", error)) if isinstance(error, dict) else error
