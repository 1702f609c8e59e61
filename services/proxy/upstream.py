"""The engine's HTTP client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import msgspec

from services.proxy.answer import Answer, error_words
from services.proxy.dialects.base import Reply
from services.proxy.errors import EngineRefused, Refused, broken, unavailable
from services.proxy.http import Answering, Connections
from services.proxy.sse import SseSplitter, data_of
from services.proxy.teacher import Teacher
from shared.errors import EngineError

T = TypeVar("T")

# vLLM's server closes a connection that idled for 5 s; one that is kept longer here would break under a request now and then.
_KEEPALIVE_S = 2.0
_CONNECT_S = 5.0
_LOOK_S = 1.0


class _Error(msgspec.Struct):
    error: str | dict[str, Any] | None = None
    message: str = ""


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Rendered(msgspec.Struct):
    token_ids: list[int]


class _Info(msgspec.Struct):
    weight_version: str


class _LogProb(msgspec.Struct):
    logprob: float


class _Scored(msgspec.Struct):
    prompt_logprobs: list[dict[str, _LogProb] | None]


class _Completion(msgspec.Struct):
    choices: list[_Scored]


_errors = msgspec.json.Decoder(_Error)
_infos = msgspec.json.Decoder(_Info)
_completions = msgspec.json.Decoder(_Completion)
_tokens = msgspec.json.Decoder(_Tokens)
_rendered = msgspec.json.Decoder(_Rendered)


class Engine:
    """One vLLM server.

    Args:
        url: its base URL.
        name: model name that it answers to.
        timeout_s: how long one call may take.
        teacher: what it speaks if it is no vLLM but a teacher.
        key: of the teacher; may be empty.
    """

    def __init__(self, url: str, name: str, timeout_s: float, teacher: Teacher | None = None, key: str = "") -> None:
        self.url = url.rstrip("/")
        self.teacher = teacher
        self._path = "/v1/chat/completions" if teacher is None else teacher.path
        headers = {} if teacher is None else teacher.headers(key)
        self._name = name
        self._http = Connections(self.url, headers, connect_s=_CONNECT_S, answer_s=timeout_s, keepalive_s=_KEEPALIVE_S)

    async def stop(self) -> None:
        """Closes the connections that nobody uses."""
        self._http.close()

    async def chat(self, body: bytes, take: Callable[[Answering], Awaitable[T]]) -> T:
        """Sends a chat request. `take` is given its reply as it comes; if it does not take all of it, or this is cancelled, the
        connection is dropped, at which the engine stops sampling.

        Raises:
            EngineRefused: 4xx.
            Refused: 502 or 503, the engine failed, is not there, broke off, or took longer than it may.
        """
        return await self._post(self._path, body, take)

    async def tokenize(
        self, messages: Sequence[msgspec.Raw], fields: Mapping[str, msgspec.Raw], *, generation_prompt: bool = True
    ) -> list[int]:
        """Token ids of a conversation (OpenAI chat messages) as the engine's template renders it.

        Args:
            messages: raw JSON.
            fields: what else the template takes: `tools`, `chat_template_kwargs`.
            generation_prompt: whether the prompt for a reply follows.

        Raises:
            EngineRefused, Refused: as `chat`.
        """
        body = {"model": self._name, "messages": messages, "add_generation_prompt": generation_prompt, **fields}
        content = await self._post("/tokenize", msgspec.json.encode(body), Answering.read)
        try:
            return _tokens.decode(content).tokens
        except msgspec.DecodeError as e:
            raise broken(f"the engine's /tokenize cannot be read: {e}") from None

    async def log_probs(self, prompt: bytes, completion: Sequence[int]) -> list[float]:
        """The log-probs (natural log) that the engine's weights give to a completion, whatever it was sampled under. It samples
        one more token to say so.

        Args:
            prompt: token ids as a JSON array without blanks, at least one.
            completion: token ids.

        Raises:
            EngineRefused, Refused: as `chat`.
        """
        ids = prompt[:-1] + b"," + msgspec.json.encode(completion)[1:]
        body = {
            "model": self._name, "prompt": msgspec.Raw(ids), "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0,
        }  # fmt: skip
        content = await self._post("/v1/completions", msgspec.json.encode(body), Answering.read)
        try:
            scored = _completions.decode(content).choices[0].prompt_logprobs[-len(completion) :]
            return [(by_id or {})[str(token)].logprob for token, by_id in zip(completion, scored, strict=True)]
        except (msgspec.DecodeError, LookupError, ValueError) as e:
            raise broken(f"the engine's prompt_logprobs cannot be read: {e!r}") from None

    async def takes_ids(self, ids: list[int]) -> bool:
        """Whether the engine takes prompts as token ids on its chat route. It is asked to render some, which samples nothing;
        one without that route is trusted, since the ids that it saw are compared on every call.

        Raises:
            Refused: the engine failed.
        """
        body = {"model": self._name, "messages": [], "kv_transfer_params": {"prompt_token_ids": ids}}
        try:
            content = await self._post("/v1/chat/completions/render", msgspec.json.encode(body), Answering.read)
            return _rendered.decode(content).token_ids == ids
        except EngineRefused as e:
            return e.status == 404
        except msgspec.DecodeError:
            return False

    async def forced(self, prompt: bytes, token: int) -> Reply:
        """The reply after a prompt whose one sampled token cannot be another, as its parsers read a stream.

        Args:
            prompt: token ids as a JSON array.
            token: id.

        Raises:
            EngineRefused, Refused: as `chat`.
            FidelityError: its answer cannot be read.
        """
        body = {
            "model": self._name, "messages": [], "kv_transfer_params": {"prompt_token_ids": msgspec.Raw(prompt)},
            "stream": True, "max_tokens": 1, "allowed_token_ids": [token], "skip_special_tokens": False,
        }  # fmt: skip
        events = await self.chat(msgspec.json.encode(body), Answering.read)
        answer = Answer()
        answer.add(data_of(SseSplitter().feed(events)))
        return answer.reply

    async def check(self) -> None:
        """Raises EngineError unless the engine says that it can serve; a teacher has no route to ask."""
        if self.teacher is not None:
            return
        await self._look("/health", _CONNECT_S)

    async def version(self) -> str:
        """Which weights it serves: what was stamped with the last ones that were loaded, `default` before any.

        Raises:
            EngineError: it does not say so soon.
        """
        try:
            return _infos.decode(await self._look("/weight_info", _LOOK_S)).weight_version
        except msgspec.DecodeError as e:
            raise EngineError(f"{self.url}/weight_info cannot be read: {e}") from None

    async def _look(self, path: str, within_s: float) -> bytes:
        try:
            async with asyncio.timeout(within_s):
                answer = await self._http.ask("GET", path)
                body = await answer.read()
        except (Refused, TimeoutError):
            raise EngineError(f"{self.url}{path} does not answer") from None
        self._http.give_back(answer)
        if answer.status != 200:
            raise EngineError(f"{self.url}{path} answers {answer.status}, not 200")
        return body

    async def _post(self, path: str, body: bytes, take: Callable[[Answering], Awaitable[T]]) -> T:
        answer = await self._http.ask("POST", path, body)
        try:
            if answer.status != 200:
                await _refuse(answer)
            return await take(answer)
        finally:
            self._http.give_back(answer)


async def _refuse(answer: Answering) -> NoReturn:
    body = await answer.read()
    if 400 <= answer.status < 500:
        raise EngineRefused(answer.status, _words(body))
    message = f"the engine answered {answer.status}: {_words(body)}"
    raise unavailable(message) if answer.status == 503 else broken(message)


def _words(body: bytes) -> str:
    """What the body of an error response says."""
    try:
        answer = _errors.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body[:200].decode(errors="replace")
    return error_words(answer.error) if answer.error is not None else answer.message
