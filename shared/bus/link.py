"""A connection to NATS that is made anew, for ever, when it breaks, and whose requests are repeated until they are answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeVar

import nats.errors
from nats.js import api
from nats.js.client import JetStreamContext
from nats.js.errors import BadRequestError, NotFoundError

from shared.bus.acks import Acks
from shared.bus.client import SteadyClient
from shared.bus.servers import urls_of
from shared.bus.streams import DUPLICATE_WINDOW_S, MAX_AGE_S, STREAMS, Stream, merged
from shared.config import BusConfig
from shared.errors import BusUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_S = 1.0
"""Seconds that one request waits for its answer; a repeated publish is harmless, the server knows the message's id."""

RECONNECT_S = 0.2
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5  # between two tries of a request; the pause doubles


_FINAL = (BadRequestError, NotFoundError)
"""Errors that trying again does not help."""


class Link:
    """The connection of one `NatsBus`; what it publishes goes over another one, `acks`."""

    def __init__(self, config: BusConfig, name: str, token: str | None) -> None:
        self.client = SteadyClient()
        self.js: JetStreamContext = self.client.jetstream(timeout=REQUEST_S)
        self.acks = Acks(config.url, token, f"{name} publishes", self._trouble)
        self._config, self._name, self._token = config, name, token
        self._troubles: deque[str] = deque(maxlen=3)

    @property
    def max_payload(self) -> int:
        """Bytes of the largest message: ours, or the server's if that is smaller."""
        return min(self._config.max_payload, self.client.max_payload)

    async def open(self) -> None:
        """Connects and makes the streams. Raises BusUnavailable."""
        try:
            async with asyncio.timeout(self._config.timeout_s):
                await self.client.connect(
                    urls_of(self._config.url),
                    token=self._token,
                    name=self._name,
                    error_cb=self._on_error,
                    reconnected_cb=self._on_reconnect,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type] # seconds, fractions work
                    ping_interval=20,
                    pending_size=4 * self._config.max_payload,
                )
        except TimeoutError:
            raise self._unavailable("connect") from None
        for stream in STREAMS:
            await self.retried(f"make the stream {stream.name}", partial(self._ensure, stream))

    async def close(self) -> None:
        """Says what is left to be said, and hangs up."""
        if self.client.is_connected:
            with contextlib.suppress(nats.errors.Error):  # the server may be gone by now
                await self.client.flush(int(REQUEST_S))
        await self.client.close()
        self.acks.close()

    async def retried(self, what: str, attempt: Callable[[], Coroutine[None, None, T]]) -> T:
        """Makes a request again until it is answered; none is made when `timeout_s` is over.

        Raises:
            BusUnavailable: it was not answered, or the connection is closed.
            BadRequestError, NotFoundError: the server's last word.
        """
        clock, pause_s = asyncio.get_running_loop().time, _PAUSE_S
        until = clock() + self._config.timeout_s
        while True:
            try:
                return await attempt()
            except nats.errors.ConnectionClosedError:
                raise self._unavailable(what) from None
            except nats.errors.Error as e:
                if isinstance(e, _FINAL):
                    raise
                await self._on_error(e)
            if (left_s := until - clock()) <= 0:
                raise self._unavailable(what)
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _ensure(self, stream: Stream) -> None:
        config = api.StreamConfig(
            name=stream.name,
            subjects=list(stream.subjects),
            retention=api.RetentionPolicy.WORK_QUEUE if stream.work else api.RetentionPolicy.LIMITS,
            storage=api.StorageType.FILE,
            discard=api.DiscardPolicy.OLD if stream.drops else api.DiscardPolicy.NEW,
            max_bytes=self._config.max_bytes,
            max_age=0 if stream.trimmed else MAX_AGE_S,
            duplicate_window=DUPLICATE_WINDOW_S,
            num_replicas=self._config.replicas,
        )
        try:
            await self.js.add_stream(config)
        except BadRequestError:  # it stands with other settings
            there = (await self.js.stream_info(stream.name)).config.subjects or []
            config.subjects = merged(stream.subjects, there)
            await self.js.update_stream(config)

    def _unavailable(self, what: str) -> BusUnavailable:
        troubles = "; ".join(self._troubles) or "no error was reported"
        return BusUnavailable(
            f"NATS at {self._config.url} did not {what} in {self._config.timeout_s:g} s ({troubles}); "
            "is it up, with JetStream, and the token right?"
        )

    async def _on_error(self, error: Exception) -> None:
        """Keeps the latest troubles to tell: a refused publish, for one, looks like a timeout and is only explained here."""
        self._trouble(str(error) or type(error).__name__)

    def _trouble(self, trouble: str) -> None:
        if trouble not in self._troubles:
            log.warning("NATS: %s", trouble)
            self._troubles.append(trouble)

    async def _on_reconnect(self) -> None:
        log.warning("NATS: connected again")
        self._troubles.clear()
