"""Pulls the messages of one consumer: never more than there are places to handle them, but many in one request."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from shared.bus.workers import Workers

log = logging.getLogger(__name__)

_EXPIRES_S = 2.0  # of one request
_SILENCE_S = 1.0  # a request that is so long overdue was lost, together with the server that had it
_PAUSE_S = 0.2  # after a refusal
_PLAIN_ENDS = ("404", "408")  # there is no message, the request expired


class Pull:
    """What this process takes of a consumer. The server sends what was asked for as it comes, so that no message grows old in
    a buffer here, and one request serves half of the places at least.

    Args:
        client: the connection.
        stream, durable: name the consumer.
        places: messages that may be here at once.
        handle: handles and settles one message.
        workers: run the handling.
        ack_wait_s: after so long the server gives a message to somebody else; those that are here are kept by asking.
    """

    def __init__(
        self,
        client: Client,
        stream: str,
        durable: str,
        places: int,
        handle: Callable[[Msg], Coroutine[None, None, None]],
        workers: Workers,
        ack_wait_s: float,
    ) -> None:
        self._client = client
        self._durable = durable
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._places = places
        self._handle = handle
        self._workers = workers
        self._ack_wait_s = ack_wait_s
        self._asked = 0
        self._held: dict[str, Msg] = {}
        self._trouble = ""
        self._may_ask = asyncio.Event()
        self._inbox: Subscription | None = None

    async def open(self) -> None:
        """Begins to take messages."""
        self._inbox = await self._client.subscribe(self._client.new_inbox(), cb=self._on_message)
        self._workers.start(self._run(self._inbox))
        self._workers.start(self._renew())

    async def _run(self, inbox: Subscription) -> None:
        try:
            while not self._workers.stopping:
                await self._ask(inbox.subject)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EXPIRES_S + _SILENCE_S):
                        await self._may_ask.wait()
                if not self._may_ask.is_set():
                    self._asked = 0
        finally:  # or the server would hand the next message to nobody, and wait for the answer
            if not self._client.is_closed:
                await inbox.unsubscribe()

    async def _ask(self, inbox: str) -> None:
        if self._trouble:
            log.warning("%s cannot fetch: %s", self._durable, self._trouble)
            self._trouble = ""
            await asyncio.sleep(_PAUSE_S)
        while not self._client.is_connected:  # noqa: ASYNC110 - requests would pile up until it is
            await asyncio.sleep(_PAUSE_S)
        self._may_ask.clear()
        free = self._places - len(self._held)
        if self._asked or not free:
            return
        self._asked = free
        request = {"batch": free, "expires": int(_EXPIRES_S * 1e9)}
        try:
            await self._client.publish(self._subject, json.dumps(request).encode(), reply=inbox)
        except nats.errors.Error as e:
            self._asked, self._trouble = 0, str(e) or type(e).__name__

    async def _on_message(self, message: Msg) -> None:
        if status := (message.headers or {}).get("Status"):
            self._asked = 0
            if status not in _PLAIN_ENDS:
                self._trouble = f"{status} {(message.headers or {}).get('Description', '')}"
            self._wake()
            return
        self._asked = max(0, self._asked - 1)
        self._held[message.reply] = message
        self._workers.start(self._take(message), busy=True)

    async def _take(self, message: Msg) -> None:
        try:
            await self._handle(message)
        finally:
            del self._held[message.reply]
            self._wake()

    def _wake(self) -> None:
        if not self._asked and 2 * len(self._held) <= self._places:
            self._may_ask.set()

    async def _renew(self) -> None:
        """Tells the server again and again that the messages which are here are being handled."""
        while True:
            await asyncio.sleep(self._ack_wait_s / 3)
            for message in list(self._held.values()):
                try:
                    await message.in_progress()
                except nats.errors.Error as e:
                    log.warning("a lease could not be renewed: %s", e)
