"""A made-up teacher that speaks OpenAI's or Anthropic's API as a server of its own, and knows nothing of token ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Json = dict[str, Any]

THOUGHT, SAID = "let me see", ["It is ", "fine."]
ARGUMENTS = ['{"path": ', '"a.txt"}']
PROMPT, CACHED, SAMPLED = 40, 30, 7


@dataclass(frozen=True)
class Answer:
    """What a teacher says, in pieces; with `arguments`, it calls the first tool that it was offered."""

    thought: str
    said: Sequence[str]
    arguments: Sequence[str]


class FakeTeacher:
    """Answers with a thought, a text in two pieces and, where it was offered tools, a call of the first one.

    Attributes:
        requests: (path, headers, body) of what came.
        url: its base URL.
        error: sent in place of the end of a reply.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str], Json]] = []
        self.url = ""
        self.error = ""

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._serve)
        app.router.add_post("/v1/messages", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    def answer(self, body: Json) -> Answer:
        """To a request of either API."""
        return Answer(THOUGHT, SAID, ARGUMENTS)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append((request.path, {k.lower(): v for k, v in request.headers.items()}, body))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in self._chat(body) if request.path.endswith("completions") else self._messages(body):
            kind = f"event: {event['type']}\n" if "type" in event else ""
            await response.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
        if request.path.endswith("completions"):
            await response.write(b"data: [DONE]\n\n")
        return response

    def _chat(self, body: Json) -> Iterator[Json]:
        answer = self.answer(body)
        for said in (
            {"role": "assistant", "content": ""},
            {"reasoning": answer.thought},
            *({"content": s} for s in answer.said),
        ):
            yield {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}
        if self.error:
            yield {"error": {"message": self.error}}
            return
        tools = body.get("tools", [])[:1] if answer.arguments else []
        for tool in tools:
            called = {"name": tool["function"]["name"], "arguments": ""}
            yield {
                "choices": [{"delta": {"tool_calls": [{"index": 0, "id": f"call_{len(self.requests)}", "function": called}]}}]
            }
            for part in answer.arguments:
                yield {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}}]}
        yield {"choices": [{"delta": {}, "finish_reason": "tool_calls" if tools else "stop"}]}
        counts = {"prompt_tokens": PROMPT, "completion_tokens": SAMPLED, "prompt_tokens_details": {"cached_tokens": CACHED}}
        yield {"choices": [], "usage": counts}

    def _messages(self, body: Json) -> Iterator[Json]:
        answer = self.answer(body)
        counts = {"input_tokens": PROMPT - CACHED, "cache_read_input_tokens": CACHED, "output_tokens": 1}
        yield {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": counts}}
        yield {"type": "ping"}
        yield from _block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": answer.thought})
        yield from _block(1, {"type": "text", "text": ""}, *({"type": "text_delta", "text": s} for s in answer.said))
        if self.error:
            yield {"type": "error", "error": {"type": "overloaded_error", "message": self.error}}
            return
        tools = body.get("tools", [])[:1] if answer.arguments else []
        for tool in tools:
            called = {"type": "tool_use", "id": f"call_{len(self.requests)}", "name": tool["name"], "input": {}}
            yield from _block(2, called, *({"type": "input_json_delta", "partial_json": p} for p in ("", *answer.arguments)))
        delta = {"stop_reason": "tool_use" if tools else "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": SAMPLED}}
        yield {"type": "message_stop"}


def _block(index: int, block: Json, *deltas: Json) -> Iterator[Json]:
    yield {"type": "content_block_start", "index": index, "content_block": block}
    yield from ({"type": "content_block_delta", "index": index, "delta": d} for d in deltas)
    yield {"type": "content_block_stop", "index": index}
