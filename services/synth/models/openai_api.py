"""Chat completions, by OpenAI's SDK: it makes calls again that were turned down for now, as Retry-After says."""

from __future__ import annotations

from typing import Any

import msgspec

from services.synth.models.calls import Answer, Call, End
from services.synth.models.endpoint import TOOL, failure, texts, unfenced
from shared.config import EndpointConfig

_OWN = "https://api.openai.com"
_FINISHED: dict[str, End] = {"length": "cut", "content_filter": "refused"}


class _Function(msgspec.Struct):
    arguments: str


class _ToolCall(msgspec.Struct):
    function: _Function


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Completion)


class OpenAIEndpoint:
    """`POST /v1/chat/completions`.

    Args:
        settings: where it is.
        key: of the API; may be empty.
    """

    def __init__(self, settings: EndpointConfig, key: str) -> None:
        from openai import AsyncOpenAI  # seconds to load, so not before it is asked for

        self._settings, self._key = settings, key
        self._client = AsyncOpenAI(
            api_key=key or "none", base_url=settings.url, timeout=settings.timeout_s, max_retries=settings.retries,
        )  # fmt: skip

    async def ask(self, call: Call) -> Answer:
        """See `Endpoint.ask`."""
        from openai import APIError, APIStatusError

        try:
            came = await self._client.chat.completions.with_raw_response.create(**self._request(call))
            return _answer(_decoder.decode(came.http_response.content))
        except APIStatusError as e:
            raise failure(self._settings, self._key, e.status_code, e.message) from None
        except APIError as e:
            raise failure(self._settings, self._key, None, e.message) from None
        except (msgspec.DecodeError, IndexError) as e:
            raise failure(self._settings, self._key, 200, f"no chat completion: {e}") from None

    async def close(self) -> None:
        """See `Endpoint.close`."""
        await self._client.close()

    def _request(self, call: Call) -> dict[str, Any]:
        limit = "max_completion_tokens" if self._settings.url.startswith(_OWN) else "max_tokens"
        request: dict[str, Any] = {"model": call.model, "messages": texts(call), limit: call.max_tokens}
        if call.temperature is not None:
            request["temperature"] = call.temperature
        if call.structured == "schema":
            schema = {"name": call.name, "schema": call.schema, "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif call.structured == "tool":
            tool = {"name": TOOL, "description": "Gives the answer.", "parameters": call.schema, "strict": True}
            request["tools"] = [{"type": "function", "function": tool}]
            request["tool_choice"] = {"type": "function", "function": {"name": TOOL}}
        return request


def _answer(completion: _Completion) -> Answer:
    choice = completion.choices[0]
    message, usage = choice.message, completion.usage or _Usage()
    end: End = "refused" if message.refusal else _FINISHED.get(choice.finish_reason or "", "done")
    calls = message.tool_calls or []
    return Answer(
        text=calls[0].function.arguments if calls else unfenced(message.content or ""), end=end,
        why=message.refusal or (choice.finish_reason or "" if end == "refused" else ""),
        tokens_in=usage.prompt_tokens, tokens_out=usage.completion_tokens,
    )  # fmt: skip
