"""Publishing to JetStream, acknowledged. The client's own `js.publish` does the same at twice the cost."""

from __future__ import annotations

import asyncio

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import APIError, NoStreamResponseError

_NO_RESPONDERS = "503"


class _Error(msgspec.Struct):
    code: int
    err_code: int | None = None
    description: str | None = None


class _Ack(msgspec.Struct):
    error: _Error | None = None


_decoder = msgspec.json.Decoder(_Ack)


class Acks:
    """The acknowledgements that a connection waits for; they all come in on one subscription."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._inbox = ""
        self._count = 0
        self._waiting: dict[str, asyncio.Future[Msg]] = {}

    async def open(self) -> None:
        """Subscribes; the connection must stand."""
        self._inbox = f"{self._client.new_inbox()}."
        await self._client.subscribe(f"{self._inbox}*", cb=self._on_ack)

    async def publish(self, subject: str, data: bytes, headers: dict[str, str], timeout_s: float) -> None:
        """Returns when the message is in its stream.

        Raises:
            nats.errors.TimeoutError: no acknowledgement came in time.
            NoStreamResponseError: no stream takes the subject, or JetStream is not up.
            APIError: the server refused, saying why.
        """
        self._count += 1
        token = str(self._count)
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(timeout_s, _give_up, answer)
        try:
            await self._client.publish(subject, data, reply=self._inbox + token, headers=headers)
            _check(await answer)
        finally:
            timer.cancel()
            del self._waiting[token]

    async def _on_ack(self, message: Msg) -> None:
        answer = self._waiting.get(message.subject[len(self._inbox) :])
        if answer is not None and not answer.done():
            answer.set_result(message)


def _give_up(answer: asyncio.Future[Msg]) -> None:
    if not answer.done():
        answer.set_exception(nats.errors.TimeoutError())


def _check(message: Msg) -> None:
    if message.headers and message.headers.get("Status") == _NO_RESPONDERS:
        raise NoStreamResponseError
    error = _decoder.decode(message.data).error
    if error is not None:
        APIError.from_error(msgspec.to_builtins(error))  # raises the class that the code stands for
