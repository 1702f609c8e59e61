"""A scripted engine: the part of vLLM 0.30's HTTP API that this project uses, without a model.

``python -m tests.engine.scripted --port P [--script FILE] [--log FILE] [--max-model-len N]``. What it says is described in
`script.py`. The log has a JSON line for every chat call that ended: `number`, `prompt_token_ids`, `token_ids` (those that were
sampled), `finish_reason` (`abort` for a call that was broken off), `streamed`. It is what fault tests compare records with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from tests.engine import bytes_tokenizer as tokenizer
from tests.engine.replies import Reply
from tests.engine.script import Rule, Script, answer, sampled_text
from tests.engine.weights import Weights

Json = dict[str, Any]


class ScriptedEngine:
    """The engine as a server on 127.0.0.1.

    Attributes:
        script: may be replaced at any time.
        requests: bodies of chat requests as they came.
        finished: what the log has.
        generated: tokens sampled, as `vllm:generation_tokens_total` counts them.
        weights: version and state of weight updates.
        scores: whether it scores prompts; `may_score` makes it wait with that.
    """

    def __init__(self, script: Script | None = None, log: Path | None = None, max_model_len: int = 4096) -> None:
        self.script = script or Script()
        self.requests: list[Json] = []
        self.finished: list[Json] = []
        self.generated = 0
        self.weights = Weights()
        self.scores = True
        self.may_score = asyncio.Event()
        self.may_score.set()
        self._log = log
        self._max_model_len = max_model_len
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, port: int = 0) -> None:
        """Listens; `url` says where."""
        self._runner = web.AppRunner(self._app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        host, bound = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{bound}"

    async def stop(self) -> None:
        """Ends the server and the calls that run."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[_readable])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/chat/completions/render", self._render)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/health", self._health)
        self.weights.add_routes(app.router)
        return app

    # --- chat ----------------------------------------------------------------------------------------------------------

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        self.requests.append(body)
        number = len(self.requests)
        body["messages"] = messages = _messages(body)
        rule = self.script.rule(number, messages)
        if rule.status != 200:
            return _error(rule.status, f"scripted to answer {rule.status}")
        await self.weights.serving.wait()
        reply = self._reply(number, body, rule)
        if len(reply.prompt) >= self._max_model_len:
            return _error(400, f"This model's maximum context length is {self._max_model_len} tokens, not {len(reply.prompt)}")
        ended = False
        try:
            await asyncio.sleep(rule.delay_s)
            answer = await (self._streamed if body.get("stream") else self._whole)(request, body, reply, rule)
            ended = True
            return answer
        finally:
            self._note(reply, streamed=bool(body.get("stream")), ended=ended)

    def _reply(self, number: int, body: Json, rule: Rule) -> Reply:
        text, calls = answer(rule, number, body)
        sent = (body.get("kv_transfer_params") or {}).get("prompt_token_ids")
        prompt = sent or tokenizer.render(body["messages"], body.get("tools"))
        if rule.spoil == "other_prompt":
            prompt = [*prompt, tokenizer.PAD]
        completion = [*tokenizer.encode(sampled_text(text, calls)), tokenizer.END]
        limit = min(body.get("max_tokens") or self._max_model_len, max(1, self._max_model_len - len(prompt)))
        finish = "tool_calls" if calls else "stop"
        if len(completion) > limit:
            completion = completion[:limit]
            text, calls, finish = tokenizer.decode(completion), [], "length"
        return Reply(
            number, body["model"], prompt, completion, finish, text, calls,
            fewer_logprobs=rule.spoil == "short_logprobs", nan_logprob=rule.spoil == "nan_logprob",
            certain=rule.spoil == "grammar",
            prompt_ids=rule.spoil != "no_prompt_ids" and bool(body.get("return_token_ids")),
        )  # fmt: skip

    async def _whole(self, request: web.Request, body: Json, reply: Reply, rule: Rule) -> web.StreamResponse:
        for i in range(len(reply.completion)):
            await self._sample(request, reply, rule, i)
        return web.json_response(reply.whole())

    async def _streamed(self, request: web.Request, body: Json, reply: Reply, rule: Rule) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for i, chunk in enumerate(reply.chunks()):
            if i > 0:
                await self._sample(request, reply, rule, i - 1)
            if i == rule.error_after:
                await response.write(_event({"error": {"message": "scripted to fail", "type": "InternalServerError"}}))
                break
            await response.write(_event(chunk))
        else:
            if (body.get("stream_options") or {}).get("include_usage"):
                await response.write(_event(reply.usage_chunk()))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _sample(self, request: web.Request, reply: Reply, rule: Rule, at: int) -> None:
        if at == rule.drop_after and request.transport is not None:
            request.transport.abort()
            raise ConnectionResetError("scripted to break the connection")
        await asyncio.sleep(rule.token_delay_s)
        reply.sampled += 1
        self.generated += 1

    def _note(self, reply: Reply, *, streamed: bool, ended: bool) -> None:
        entry = {
            "number": reply.number, "prompt_token_ids": reply.prompt, "token_ids": reply.completion[: reply.sampled],
            "finish_reason": reply.finish_reason if ended else "abort", "streamed": streamed,
        }  # fmt: skip
        self.finished.append(entry)
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    # --- the rest ------------------------------------------------------------------------------------------------------

    async def _completions(self, request: web.Request) -> web.Response:
        body: Json = await request.json()
        await self.may_score.wait()
        if not self.scores:
            return _error(400, "scripted to score nothing")
        prompt: list[int] = body["prompt"] if isinstance(body["prompt"], list) else tokenizer.encode(body["prompt"])
        scored: list[Json | None] = [None]
        for at in range(1, len(prompt)):
            token = {
                "logprob": tokenizer.logprob(prompt, at),
                "rank": 1,
                "decoded_token": tokenizer.decode(prompt[at : at + 1]),
            }
            scored.append({str(prompt[at]): token})
        reply = [*prompt, tokenizer.END]
        self.generated += 1
        choice: Json = {
            "index": 0, "text": "", "finish_reason": "stop", "token_ids": [tokenizer.END], "prompt_token_ids": prompt,
            "logprobs": {"token_logprobs": [tokenizer.logprob(reply, len(prompt))]},
        }  # fmt: skip
        if body.get("prompt_logprobs") is not None:
            choice["prompt_logprobs"] = scored
        return web.json_response({"id": "cmpl-0", "object": "text_completion", "model": body["model"], "choices": [choice]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body: Json = await request.json()
        if "messages" in body:
            ids = tokenizer.render(body["messages"], body.get("tools"), open_turn=body.get("add_generation_prompt", True))
        else:
            ids = tokenizer.encode(body["prompt"])
        return web.json_response({"tokens": ids, "count": len(ids), "max_model_len": self._max_model_len})

    async def _render(self, request: web.Request) -> web.Response:
        body: Json = await request.json()
        sent = (body.get("kv_transfer_params") or {}).get("prompt_token_ids")
        if sent is None or self.script.rules[:1] == [Rule(spoil="other_prompt")]:
            sent = tokenizer.render(body["messages"], body.get("tools"))
        return web.json_response({"request_id": "render-0", "token_ids": sent})

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": "policy", "object": "model", "owned_by": "scripted", "max_model_len": self._max_model_len}
        return web.json_response({"object": "list", "data": [model]})

    async def _metrics(self, _: web.Request) -> web.Response:
        name = "vllm:generation_tokens_total"
        return web.Response(text=f'# TYPE {name} counter\n{name}{{engine="0",model_name="policy"}} {float(self.generated)}\n')

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()


@web.middleware
async def _readable(request: web.Request, handler: Handler) -> web.StreamResponse:
    """As vLLM, which reads a request before all else: one that cannot be read is its sender's fault."""
    try:
        return await handler(request)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
        return _error(400, f"the request cannot be read: {type(e).__name__}: {e}")


def _messages(body: Json) -> list[Json]:
    """The conversation of a request, which may also come as token ids."""
    sent = (body.get("kv_transfer_params") or {}).get("prompt_token_ids")
    return tokenizer.read(sent) if sent else list(body["messages"])


def _event(content: Json) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "BadRequestError", "code": status}}, status=status)


async def _serve(engine: ScriptedEngine, port: int) -> None:
    await engine.start(port)
    await asyncio.Event().wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A scripted engine that speaks vLLM's HTTP API.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--max-model-len", type=int, default=4096)
    args, _ = parser.parse_known_args()  # `vllm serve` has many more, which mean nothing here
    script = msgspec.json.decode(args.script.read_bytes(), type=Script) if args.script else Script()
    asyncio.run(_serve(ScriptedEngine(script, args.log, args.max_model_len), args.port))


if __name__ == "__main__":
    main()
