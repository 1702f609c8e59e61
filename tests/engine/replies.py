"""A reply of the scripted engine in vLLM's shapes: whole, or as the chunks of a stream."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.engine import bytes_tokenizer as tokenizer

Json = dict[str, Any]


@dataclass
class Reply:
    """One reply: what it will say, and how many of its tokens have been sampled.

    Attributes:
        number: of the call.
        model: name that was asked for.
        prompt: token ids.
        completion: all token ids that will be sampled, stop token included.
        finish_reason: of the whole reply.
        text: its text without markup.
        tool_calls: its tool calls.
        sampled: tokens sampled so far.
        fewer_logprobs: leave out the last log-prob.
        certain: all log-probs are 0.
        ids: give prompt ids.
    """

    number: int
    model: str
    prompt: list[int]
    completion: list[int]
    finish_reason: str
    text: str
    tool_calls: list[Json]
    sampled: int = 0
    fewer_logprobs: bool = False
    nan_logprob: bool = False
    certain: bool = False
    prompt_ids: bool = True
    created: int = field(default_factory=lambda: int(time.time()))

    def logprobs(self, start: int, end: int) -> Json:
        """`logprobs` of the completion's tokens from `start` to `end`."""
        ids, base = self.prompt + self.completion, len(self.prompt)
        content = [self._logprob(ids, base + i) for i in range(start, end)]
        if self.fewer_logprobs and end == len(self.completion):
            content = content[:-1]
        return {"content": content}

    def whole(self) -> Json:
        """The body of a reply that is not streamed."""
        message: Json = {"role": "assistant", "content": self.text or None}
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        choice = {
            "index": 0, "message": message, "finish_reason": self.finish_reason, "stop_reason": None,
            "logprobs": self.logprobs(0, len(self.completion)), "token_ids": self.completion,
        }  # fmt: skip
        return self._body("chat.completion", [choice]) | self._prompt_ids() | {"usage": self.usage()}

    def chunks(self) -> Iterator[Json]:
        """The chunks of a stream, one a token after the first; a tool call comes with its last token, as with a parser that
        holds markup back."""
        yield self._chunk({"role": "assistant", "content": ""}, None) | self._prompt_ids()
        text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        visible, last = len(tokenizer.encode(self.text)), len(self.completion) - 1
        for i, token in enumerate(self.completion):
            delta: Json = {}
            if i < visible and (piece := text.decode(bytes([token]))):
                delta["content"] = piece
            if i == last and self.tool_calls:
                delta["tool_calls"] = [{"index": n} | call for n, call in enumerate(self.tool_calls)]
            extra = {"token_ids": [token], "logprobs": self.logprobs(i, i + 1)}
            yield self._chunk(delta, self.finish_reason if i == last else None, extra)

    def usage_chunk(self) -> Json:
        """The chunk that `include_usage` asks for."""
        return self._body("chat.completion.chunk", []) | {"usage": self.usage()}

    def usage(self) -> Json:
        """Token counts."""
        n, m = len(self.prompt), len(self.completion)
        return {"prompt_tokens": n, "completion_tokens": m, "total_tokens": n + m}

    def _logprob(self, ids: list[int], at: int) -> Json:
        value = float("nan") if self.nan_logprob else 0.0 if self.certain else tokenizer.logprob(ids, at)
        return {"token": tokenizer.decode(ids[at : at + 1]), "logprob": value, "bytes": [], "top_logprobs": []}

    def _chunk(self, delta: Json, finish_reason: str | None, extra: Json | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason} | (extra or {})
        return self._body("chat.completion.chunk", [choice])

    def _body(self, kind: str, choices: list[Json]) -> Json:
        return {
            "id": f"chatcmpl-{self.number}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    def _prompt_ids(self) -> Json:
        return {"prompt_token_ids": self.prompt} if self.prompt_ids else {}
