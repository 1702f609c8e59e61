"""Messages, by Anthropic's SDK: it makes calls again that were turned down for now, as Retry-After says."""

from __future__ import annotations

from typing import Any

import msgspec

from services.synth.models.calls import Answer, Call, End
from services.synth.models.endpoint import TOOL, failure, texts, unfenced
from shared.config import EndpointConfig

_STOPPED: dict[str, End] = {"max_tokens": "cut", "model_context_window_exceeded": "cut", "refusal": "refused"}


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Message(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    usage: _Usage = msgspec.field(default_factory=_Usage)


_decoder = msgspec.json.Decoder(_Message)


class AnthropicEndpoint:
    """`POST /v1/messages`.

    Args:
        settings: where it is.
        key: of the API; may be empty.
    """

    def __init__(self, settings: EndpointConfig, key: str) -> None:
        from anthropic import AsyncAnthropic  # seconds to load, so not before it is asked for

        self._settings, self._key = settings, key
        # The SDK sends the key as a bearer token, as the company's own API has it now; others know the header that came before.
        others = {"x-api-key": key} if key and settings.base_url else {}
        self._client = AsyncAnthropic(
            api_key=key or "none", base_url=settings.url, timeout=settings.timeout_s, max_retries=settings.retries,
            default_headers=others,
        )  # fmt: skip

    async def ask(self, call: Call) -> Answer:
        """See `Endpoint.ask`."""
        from anthropic import APIError, APIStatusError

        try:
            came = await self._client.messages.with_raw_response.create(**_request(call))
            return _answer(_decoder.decode(came.http_response.content))
        except APIStatusError as e:
            raise failure(self._settings, self._key, e.status_code, e.message) from None
        except APIError as e:
            raise failure(self._settings, self._key, None, e.message) from None
        except msgspec.DecodeError as e:
            raise failure(self._settings, self._key, 200, f"no message: {e}") from None

    async def close(self) -> None:
        """See `Endpoint.close`."""
        await self._client.close()


def _request(call: Call) -> dict[str, Any]:
    request: dict[str, Any] = {"model": call.model, "messages": texts(call), "max_tokens": call.max_tokens}
    if call.temperature is not None:
        request["extra_body"] = {"temperature": call.temperature}  # not an argument of the SDK any more
    if call.structured == "schema":
        request["output_config"] = {"format": {"type": "json_schema", "schema": call.schema}}
    elif call.structured == "tool":
        request["tools"] = [{"name": TOOL, "description": "Gives the answer.", "input_schema": call.schema}]
        request["tool_choice"] = {"type": "tool", "name": TOOL}
    return request


def _answer(message: _Message) -> Answer:
    usage, end = message.usage, _STOPPED.get(message.stop_reason or "", "done")
    tools = [bytes(block.input).decode() for block in message.content if block.type == "tool_use"]
    text = "".join(block.text for block in message.content if block.type == "text")
    return Answer(
        text=tools[0] if tools else unfenced(text), end=end, why=text[:300] or "refusal" if end == "refused" else "",
        tokens_in=usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0),
        tokens_out=usage.output_tokens,
    )  # fmt: skip
