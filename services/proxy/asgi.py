"""Requests that an ASGI application answers: the control routes, which are FastAPI's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from services.proxy.client import JSON, Client

_Message = MutableMapping[str, Any]
Asgi = Callable[[_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Awaitable[None]]


async def run_asgi(app: Asgi, client: Client, body: bytes) -> None:
    """Has an application answer a request; the response is sent once it is whole. Raises what the application raises."""
    told, status, headers, pieces = False, 200, dict[str, str](), list[bytes]()

    async def receive() -> _Message:
        nonlocal told
        if told:  # that the client left is not told: such a request is carried out to its end
            await asyncio.get_running_loop().create_future()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: _Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], {k.decode("latin-1"): v.decode("latin-1") for k, v in message["headers"]}
            return
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            headers.pop("content-length", None)
            await client.respond(status, headers.pop("content-type", JSON), b"".join(pieces), **headers)

    await app(_scope(client), receive, send)


def _scope(client: Client) -> _Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": client.method,
        "scheme": "http",
        "path": client.path,
        "raw_path": client.path.encode(),
        "query_string": client.query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in client.headers.items()],
        "client": None,
        "server": None,
        "state": {},
    }
