"""An engine that follows a model of one's own, but tokenises as real ones do and speaks vLLM's HTTP API: chat (streamed or
whole, from messages or from ids), render, tokenize, weight updates, and errors in vLLM's words.

The log has a JSON line for every chat call: `seed` (by which a call is found again), `note` (the model's), `status`,
`prompt_len`, `prompt_digest`, `token_ids` (sampled), `finish_reason` (`abort` when broken off), `streamed`, `spliced` (it came
as ids), `images`, `tools` (names), and how the system's first and the user's last words begin (`system`, `user`).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from shared.packing import digest_packed, pack_ids
from tests.engine import real_tokenizer as tokenizer
from tests.engine.real_prompt import Model, Prompt, Say, read_prompt
from tests.engine.real_reply import Call
from tests.engine.weights import Weights

Json = dict[str, Any]


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RealEngine:
    """The engine as a server on 127.0.0.1; it serves one model under any name.

    Args:
        model: decides what is said.
        log: file for a line a call.
        max_model_len: tokens of prompt and reply.
        misreads: with a thought in the prompt, new thinking is taken for text, as by several of vLLM's parsers.
    """

    def __init__(self, model: Model, log: Path | None = None, max_model_len: int = 65536, *, misreads: bool = False) -> None:
        self.weights = Weights()
        self.calls: list[Json] = []
        self.url = ""
        self._model = model
        self._log = log
        self._max_model_len = max_model_len
        self._misreads = misreads
        self._started = 0
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        """Listens; `url` says where."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/chat/completions/render", self._render)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        self.weights.add_routes(app.router)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0][:2])

    async def stop(self) -> None:
        """Ends the server and the calls that run."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        self._started += 1
        number = self._started
        await self.weights.serving.wait()
        try:
            prompt = self._prompt(body)
            limit = self._limit(body, len(prompt))
        except Refusal as e:
            return _error(e)
        seen, forced = read_prompt(prompt, body), body.get("allowed_token_ids")
        say = Say(note="forced") if forced else self._model.say(seen)
        completion = forced or [*tokenizer.sampled(say.text, number), tokenizer.token("<|im_end|>")]
        finish = "stop" if len(completion) <= limit else "length"
        misreads = self._misreads and tokenizer.token("</think>") in prompt
        call = Call(number, body, prompt, say, completion[:limit], finish, misreads)
        answer: web.StreamResponse | None = None
        try:
            if say.status != 200:
                answer = _error(Refusal(say.status, _words(say.status, self._max_model_len)))
            else:
                answer = await (self._streamed if body.get("stream") else self._whole)(request, call)
            return answer
        finally:
            self._note(call, seen, ended=answer is not None)

    def _prompt(self, body: Json) -> list[int]:
        given = (body.get("kv_transfer_params") or {}).get("prompt_token_ids")
        if given is not None:
            return list(given)
        if not body.get("messages"):
            raise Refusal(400, "messages must not be empty")
        return tokenizer.render(body["messages"], body.get("tools"), bool(body.get("add_generation_prompt", True)))

    def _limit(self, body: Json, prompt: int) -> int:
        """Most tokens that may be sampled."""
        wanted = body.get("max_completion_tokens") or body.get("max_tokens") or 1
        if prompt + wanted > self._max_model_len:
            raise Refusal(400, overflow(self._max_model_len, wanted, prompt))
        return wanted if body.get("max_completion_tokens") or body.get("max_tokens") else self._max_model_len - prompt

    async def _whole(self, request: web.Request, call: Call) -> web.StreamResponse:
        for _ in call.completion:
            await _sample(request, call)
        return web.json_response(call.whole())

    async def _streamed(self, request: web.Request, call: Call) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for i, chunk in enumerate(call.chunks()):
            if i:
                await _sample(request, call)
            await response.write(_event(chunk))
        if (call.body.get("stream_options") or {}).get("include_usage"):
            await response.write(_event(call.head("chat.completion.chunk", []) | {"usage": call.usage()}))
        await response.write(b"data: [DONE]\n\n")
        return response

    def _note(self, call: Call, seen: Prompt, *, ended: bool) -> None:
        entry = {
            "seed": call.body.get("seed"), "note": call.say.note, "status": call.say.status, "prompt_len": len(call.prompt),
            "prompt_digest": digest_packed(pack_ids(call.prompt)), "token_ids": call.completion[: call.sampled],
            "finish_reason": call.finish_reason if ended else "abort", "streamed": bool(call.body.get("stream")),
            "spliced": not call.body.get("messages"), "images": seen.images, "tools": seen.tools,
            "system": seen.beginning("system"), "user": seen.beginning("user"),
        }  # fmt: skip
        self.calls.append(entry)
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    async def _render(self, request: web.Request) -> web.Response:
        body: Json = await request.json()
        try:
            ids = self._prompt(body)
        except Refusal as e:
            return _error(e)
        return web.json_response({"request_id": "render-0", "token_ids": ids, "sampling_params": {}, "model": body["model"]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body: Json = await request.json()
        ids = tokenizer.encode(body["prompt"]) if "prompt" in body else self._prompt(body)
        return web.json_response({"tokens": ids, "count": len(ids), "max_model_len": self._max_model_len})

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": "policy", "object": "model", "owned_by": "scripted", "max_model_len": self._max_model_len}
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()


def overflow(most: int, wanted: int, prompt: int) -> str:
    """What vLLM says of a prompt that is too long."""
    return (
        f"This model's maximum context length is {most} tokens. However, you requested {wanted} output tokens and your prompt "
        f"contains {prompt} input tokens, for a total of {prompt + wanted} tokens. Please reduce the length of the input "
        "prompt or the number of requested output tokens."
    )


def _words(status: int, most: int) -> str:
    return overflow(most, 0, most + 1) if status == 400 else f"scripted to answer {status}"


async def _sample(request: web.Request, call: Call) -> None:
    if call.sampled == call.say.drop_after and request.transport is not None:
        request.transport.abort()
        raise ConnectionResetError("scripted to break the connection")
    await asyncio.sleep(call.say.token_delay_s)
    call.sampled += 1


def _event(content: Json) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def _error(refusal: Refusal) -> web.Response:
    error = {"message": str(refusal), "type": "BadRequestError", "param": None, "code": refusal.status}
    return web.json_response({"error": error}, status=refusal.status)
