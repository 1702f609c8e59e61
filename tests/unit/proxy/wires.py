"""The dialects as they look on the wire: routes, requests that work, errors, and how to tell that a stream is whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

ROUTES = {
    "openai.chat": "/v1/chat/completions",
    "openai.responses": "/v1/responses",
    "anthropic.messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
"""Path of each API's calls, after the session's."""

ENDS = {
    "openai.chat": b"data: [DONE]",
    "openai.responses": b'"type":"response.completed"',
    "anthropic.messages": b'{"type":"message_stop"}\n\n',
    "gemini": b'"finishReason":"STOP"',
}
"""What only the end of a whole stream holds."""


class Wire:
    """A connection on which anything can be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, url: str) -> Wire:
        where = urlsplit(url)
        return cls(*await asyncio.open_connection(where.hostname, where.port))

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of an answer after which the connection is closed."""
        async with asyncio.timeout(5):
            received = (await self._reader.read()).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        head, _, content = received.partition(b"\r\n\r\n")
        self._writer.close()
        return int(head.split()[1]), content

    async def post(self, path: str, body: Json) -> None:
        """Sends a whole request."""
        content = json.dumps(body).encode()
        await self.send(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content)

    async def until(self, mark: bytes) -> bytes:
        """What came; it returns in the very read that brings a mark."""
        async with asyncio.timeout(5):
            seen = b""
            while mark not in seen:
                piece = await self._reader.read(65536)
                assert piece, f"the connection ended: {seen!r}"
                seen += piece
        return seen

    def hang_up(self) -> None:
        """Closes the connection, whatever is still to come."""
        self._writer.transport.abort()


def asked(api: str, text: str, *, stream: bool = False) -> Json:
    """A request that says a text."""
    streamed = {"stream": True} if stream else {}
    match api:
        case "openai.chat":
            return {"model": "m", "messages": [{"role": "user", "content": text}]} | streamed
        case "openai.responses":
            return {"model": "m", "input": text} | streamed
        case "anthropic.messages":
            return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}]} | streamed
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def route(api: str, *, stream: bool = False) -> str:
    """The path of a call."""
    if api == "gemini" and stream:
        return "/v1beta/models/m:streamGenerateContent?alt=sse"
    return ROUTES[api]


def error_of(api: str, answer: Json) -> str:
    """The message of an error; fails unless it has the shape of its API."""
    match api:
        case "openai.chat" | "openai.responses":
            assert set(answer["error"]) == {"message", "type", "param", "code"}
        case "anthropic.messages":
            assert (answer["type"], set(answer["error"])) == ("error", {"type", "message"})
        case "gemini":
            assert set(answer["error"]) == {"code", "message", "status"}
    message = answer["error"]["message"]
    assert isinstance(message, str)
    assert message
    return message


def error_event_of(api: str, stream: bytes) -> str:
    """The message of the error that ends a stream."""
    line = stream.strip().splitlines()[-1]
    event = json.loads(line.removeprefix(b"data: "))
    if api == "openai.responses":
        assert event["type"] == "response.failed"
        return str(event["response"]["error"]["message"])
    return error_of(api, event)
