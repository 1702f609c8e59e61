"""What the engine answered, read out of its chat replies: streamed or whole, the same fields come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import msgspec

from services.proxy.dialects.base import Delta, Reply, ToolCall, ToolDelta, Usage
from services.proxy.errors import broken
from services.proxy.sse import data_of, lines_of
from shared.errors import FidelityError
from shared.packing import pack_floats

_NULL = msgspec.Raw(b"null")


class _TokenLogprob(msgspec.Struct, gc=False):
    logprob: float


class _Logprobs(msgspec.Struct, gc=False):
    content: list[_TokenLogprob] | None = None


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct, gc=False):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class Said(msgspec.Struct, gc=False):
    """What an event adds to the reply, or the whole of it, in the engine's words; often nothing."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None  # the same, as some teachers call it
    tool_calls: list[_ToolCall] | None = None

    @property
    def thought(self) -> str:
        """Its reasoning."""
        return self.reasoning or self.reasoning_content or ""

    @property
    def delta(self) -> Delta | None:
        """The same as an increment; None where it adds nothing."""
        tools = tuple([_tool_delta(part) for part in self.tool_calls]) if self.tool_calls else ()
        if self.content or tools or self.thought:
            return Delta(self.thought, self.content or "", tools)
        return None


class _Choice(msgspec.Struct, gc=False):
    delta: Said | None = None
    message: Said | None = None
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    routed_experts: str | None = None


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Reply(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    prompt_token_ids: msgspec.Raw = _NULL
    usage: _Usage | None = None
    error: str | dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(_Reply)
_decode, _decode_lines = _decoder.decode, _decoder.decode_lines
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PROMPT = b'"prompt_token_ids":['  # in a string of JSON, its quotes would be escaped


class _Tool(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: list[str] = []


class Answer(msgspec.Struct):
    """A reply of the engine, as far as it has come.

    Attributes:
        prompt: token ids that the engine saw, as a JSON array without blanks; empty until they came.
        completion: sampled token ids, a sampled stop token included.
        logprobs: natural log, one per sampled id.
        finish_reason: set by the last event with tokens.
        stop_reason: the engine's: a stop string, the id of a stop token that was asked for, None for its own stop tokens.
        experts: which experts the engine chose, in base64; empty where it does not say (vLLM: where it streams).
        closing: of the events that came together with the end of the reply, how many come from there on.
    """

    prompt: bytes = b""
    completion: list[int] = []
    logprobs: list[float] = []
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    experts: str = ""
    closing: int = 0
    _cached: int = 0
    _told: _Usage | None = None
    _content: list[str] = []
    _reasoning: list[str] = []
    _tools: dict[int, _Tool] = {}

    def add(self, events: Sequence[bytes]) -> list[Said]:
        """Takes in the JSON of some events; gives what they add to the reply.

        Raises:
            Refused: the engine reported an error inside the stream; what came before it counts.
            FidelityError: one of them cannot be read.
        """
        return self._add(map(self._read, events), len(events))

    def feed(self, events: bytes) -> list[Said]:
        """Takes in whole server-sent events, as `add` does what they hold. Many that came together are read in one step."""
        if not self.prompt:
            events = self._without_prompt(events)
        lines, count = lines_of(events)
        try:
            replies = _decode_lines(lines)
        except _UNREADABLE:  # some of them may be as they should be
            replies = []
        return self._add(replies, count) if len(replies) == count else self.add(data_of(events))

    def _add(self, replies: Iterable[_Reply], count: int) -> list[Said]:
        """Takes in some replies, `count` of them. What they say all comes through here: its price is that of a chunk."""
        all_said: list[Said] = []
        completion, logprobs, content = self.completion, self.logprobs, self._content
        try:
            for at, reply in enumerate(replies):
                if reply.prompt_token_ids is not _NULL or reply.usage is not None or reply.error is not None:  # few have any
                    self._add_facts(reply)
                for choice in reply.choices:
                    if (said := choice.delta or choice.message) is not None:
                        all_said.append(said)
                        content.append(said.content or "")
                        if said.reasoning or said.reasoning_content or said.tool_calls:  # few have any
                            self._add_rarer(said)
                    completion.extend(choice.token_ids or ())
                    if choice.logprobs is not None:
                        logprobs += [token.logprob for token in choice.logprobs.content or ()]
                    if choice.finish_reason is not None:
                        self._add_end(choice, count - at)
        except _UNREADABLE as e:
            raise _unreadable(e) from None
        return all_said

    def add_whole(self, body: bytes) -> None:
        """Takes in a reply that was not streamed.

        Raises:
            Refused, FidelityError: as `add`; also when the reply is not finished.
        """
        try:
            reply = self._read(body)
        except _UNREADABLE as e:
            raise _unreadable(e) from None
        for choice in reply.choices:
            for index, call in enumerate((choice.message and choice.message.tool_calls) or ()):
                call.index = index
        self._add([reply], 1)
        if self.finish_reason is None:
            raise broken("the engine's reply has no finish_reason")

    @property
    def reply(self) -> Reply:
        """The reply as far as it has come. Sampled tokens are counted where their ids are known, else by the engine."""
        calls = [ToolCall(t.id, t.name, "".join(t.arguments)) for _, t in sorted(self._tools.items())]
        told = self._told or _Usage()
        prompt = self.prompt_length if told.prompt_tokens is None else told.prompt_tokens
        completion = len(self.completion) if self.prompt else told.completion_tokens or 0
        usage = Usage(prompt, completion, self._cached)
        stopped = self.stop_reason if isinstance(self.stop_reason, str) else None
        return Reply("".join(self._reasoning), "".join(self._content), calls, self.finish_reason or "", usage, stopped)

    @property
    def prompt_length(self) -> int:
        """Tokens of the prompt, counted without reading them; 0 until they came."""
        return self.prompt.count(b",") + 1 if self.prompt else 0

    def check(self) -> bytes:
        """Makes certain that a record will be exact; gives the log-probs as it holds them, packed float32.

        Raises:
            FidelityError: prompt ids are missing, ids and log-probs do not pair up, or a log-prob is not finite.
        """
        if not self.prompt:
            raise FidelityError("the engine gave no prompt_token_ids; does it support return_token_ids?")
        if len(self.completion) != len(self.logprobs):
            raise FidelityError(f"the engine gave {len(self.completion)} token ids and {len(self.logprobs)} log-probs")
        try:
            packed = pack_floats(self.logprobs)
        except OverflowError:
            raise FidelityError("the engine gave a log-prob that is beyond all bounds") from None
        if not isfinite(sum(self.logprobs)):
            raise FidelityError("the engine gave a log-prob that is not finite")
        return packed

    def _read(self, data: bytes) -> _Reply:
        return _decode(data if self.prompt else self._without_prompt(data))

    def _without_prompt(self, data: bytes) -> bytes:
        """Cuts the prompt's ids out, if they are there: to read over its numbers would cost as much as all the rest."""
        if (start := _start_of_prompt(data)) < 0:
            return data
        end, view = data.find(b"]", start) + 1, memoryview(data)
        self.prompt = data[start:end]
        return b"null".join((view[:start], view[end:]))

    def _add_facts(self, reply: _Reply) -> None:
        if reply.error is not None:
            raise broken(error_words(reply.error))
        if reply.prompt_token_ids != _NULL:
            self.prompt = bytes(reply.prompt_token_ids).replace(b" ", b"")
        if reply.usage is not None:
            self._told = reply.usage
            if reply.usage.prompt_tokens_details is not None:
                self._cached = reply.usage.prompt_tokens_details.cached_tokens or 0

    def _add_end(self, choice: _Choice, left: int) -> None:
        self.finish_reason, self.stop_reason = choice.finish_reason, choice.stop_reason
        self.experts = choice.routed_experts or ""
        self.closing = self.closing or left

    def _add_rarer(self, said: Said) -> None:
        if said.thought:
            self._reasoning.append(said.thought)
        for part in said.tool_calls or ():
            delta = _tool_delta(part)
            call = self._tools.setdefault(part.index, _Tool())
            call.id = call.id or delta.id
            call.name += delta.name
            call.arguments.append(delta.arguments)


def _start_of_prompt(data: bytes) -> int:
    """Where the list of the prompt's ids begins; -1 where there is none."""
    last = data.rfind(b"[")  # of a whole reply it is the last list, nearly always: it is found in no time like this
    if data.startswith(_PROMPT, max(last + 1 - len(_PROMPT), 0)):
        return last
    at = data.find(_PROMPT)
    return at + len(_PROMPT) - 1 if at >= 0 else -1


def _tool_delta(part: _ToolCall) -> ToolDelta:
    function = part.function or _Function()
    return ToolDelta(part.index, part.id or "", function.name or "", function.arguments or "")


def _unreadable(error: Exception) -> FidelityError:
    return FidelityError(f"the engine's reply cannot be read: {error}")


def error_words(error: str | dict[str, Any]) -> str:
    """What an error of the engine says: its `message` if it has one."""
    return str(error.get("message", error)) if isinstance(error, dict) else error
