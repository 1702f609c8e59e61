"""A reply of the conversing engine in vLLM's shapes: whole, or as the chunks of a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.engine.real_parser import Parser, whole
from tests.engine.real_prompt import Say

Json = dict[str, Any]


@dataclass
class Call:
    """A chat call and how far it has come.

    Attributes:
        number: counts from 1.
        body: the request.
        prompt: ids.
        say: what becomes of it.
        completion: ids that will be sampled.
        finish_reason: of the whole reply.
        misreads: its thinking is taken for text.
        sampled: ids that have been.
    """

    number: int
    body: Json
    prompt: list[int]
    say: Say
    completion: list[int]
    finish_reason: str
    misreads: bool = False
    sampled: int = 0

    def logprobs(self, start: int, end: int) -> Json:
        """`logprobs` of some ids of the completion: made up, but always the same."""
        before = [self.prompt[-1], *self.completion]
        values = [_logprob(before[i], self.completion[i], len(self.prompt) + i) for i in range(start, end)]
        return {"content": [{"token": "", "logprob": value, "bytes": [], "top_logprobs": []} for value in values]}

    def usage(self) -> Json:
        """Token counts."""
        n, m = len(self.prompt), len(self.completion)
        return {"prompt_tokens": n, "completion_tokens": m, "total_tokens": n + m}

    def head(self, kind: str, choices: list[Json]) -> Json:
        """What every body begins with."""
        return {
            "id": f"chatcmpl-{self.number}", "object": kind, "created": int(time.time()), "model": self.body["model"],
            "choices": choices,
        }  # fmt: skip

    def ids(self) -> Json:
        """`prompt_token_ids`, if they were asked for."""
        return {"prompt_token_ids": self.prompt} if self.body.get("return_token_ids") else {}

    def chunks(self) -> Iterator[Json]:
        """The chunks of a stream: one without tokens, then one a token."""
        parser, kind = Parser(self.number, misreads=self.misreads), "chat.completion.chunk"
        first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        yield self.head(kind, [first]) | self.ids()
        last = len(self.completion) - 1
        for i, piece in enumerate(self.completion):
            delta = parser.feed(piece)
            finish = (
                None if i < last else ("tool_calls" if parser.calls and self.finish_reason == "stop" else self.finish_reason)
            )
            choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "stop_reason": None}
            if self.body.get("logprobs"):
                choice["logprobs"] = self.logprobs(i, i + 1)
            if self.body.get("return_token_ids"):
                choice["token_ids"] = [piece]
            yield self.head(kind, [choice])

    def whole(self) -> Json:
        """The body of a reply that is not streamed."""
        message = whole(self.completion, self.number)
        finish = "tool_calls" if message.get("tool_calls") and self.finish_reason == "stop" else self.finish_reason
        choice: Json = {"index": 0, "message": message, "finish_reason": finish, "stop_reason": None}
        if self.body.get("logprobs"):
            choice["logprobs"] = self.logprobs(0, len(self.completion))
        if self.body.get("return_token_ids"):
            choice["token_ids"] = self.completion
        return self.head("chat.completion", [choice]) | self.ids() | {"usage": self.usage()}


def _logprob(before: int, token: int, at: int) -> float:
    return -((before * 31 + token * 17 + at * 7) % 997 + 1) / 1000
