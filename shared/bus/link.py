"""A connection to NATS that is made anew, for ever, when it breaks, and whose requests are repeated until they are answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import api
from nats.js.client import JetStreamContext
from nats.js.errors import BadRequestError, NotFoundError

from shared.bus.acks import Acks
from shared.bus.client import SteadyClient
from shared.bus.nkey import nkey_of
from shared.bus.refusals import Refused, refusal_in
from shared.bus.rights import inbox_of, makes_streams, uses_streams
from shared.bus.servers import servers_of, urls_of
from shared.bus.streams import DUPLICATE_WINDOW_S, MAX_AGE_S, STREAMS, Stream, merged
from shared.config import BusConfig
from shared.errors import BusRefused, BusUnavailable
from shared.keys import SEED, secret_of
from shared.tls import check_scheme, context_of

log = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_S = 1.0
"""Seconds that one request waits for its answer; a repeated publish is harmless, the server knows the message's id."""

RECONNECT_S = 0.2
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5  # between two tries of a request; the pause doubles


_FINAL = (BadRequestError, NotFoundError)
"""Errors that trying again does not help."""


class Link:
    """The connection of one `NatsBus`; what it publishes goes over another one, `acks`.

    Args:
        config: where the server is, and the folder of the keys.
        name: of the connection.
        user: whose key is shown.

    Raises:
        ConfigError: a setting is wrong, or the key cannot be read.
    """

    def __init__(self, config: BusConfig, name: str, user: str) -> None:
        check_scheme(config.tls, config.url, "tls", "bus")
        self._nkey = nkey_of(secret_of(config.keys, user, SEED), f"{user}.{SEED}") if config.keys else None
        self._context = context_of(config.tls, "bus.tls")
        self.client = SteadyClient(demands_tls=any(server.tls for server in servers_of(config.url)))
        self.js: JetStreamContext = self.client.jetstream(timeout=REQUEST_S)
        inbox = inbox_of(user)
        self.acks = Acks(config.url, self._nkey, self._context, f"{name} publishes", inbox, self._trouble, REQUEST_S)
        self._config, self._name, self._user = config, name, user
        self._troubles: deque[str] = deque(maxlen=3)

    @property
    def max_payload(self) -> int:
        """Bytes of the largest message: ours, or the server's if that is smaller."""
        return min(self._config.max_payload, self.client.max_payload)

    async def open(self) -> None:
        """Connects, and makes the streams or waits until they are there. Raises BusUnavailable."""
        connecting = asyncio.ensure_future(
            self.client.connect(
                urls_of(self._config.url),
                nkeys_seed_str=self._nkey.seed if self._nkey else None,
                tls=self._context,
                inbox_prefix=inbox_of(self._user),
                name=self._name,
                error_cb=self._on_error,
                reconnected_cb=self._on_reconnect,
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type] # seconds, fractions work
                ping_interval=20,
                pending_size=4 * self._config.max_payload,
            )
        )
        try:
            await asyncio.wait({connecting}, timeout=self._config.timeout_s)
            if not connecting.done():
                raise self._unavailable("connect")
            await connecting
        finally:
            while not connecting.done():  # Python 3.11's `wait_for`, which it is made of, loses a cancellation now and then
                connecting.cancel()
                await asyncio.wait({connecting}, timeout=RECONNECT_S)
        for stream in STREAMS if uses_streams(self._user) else ():
            if makes_streams(self._user):
                await self.retried(f"make the stream {stream.name}", partial(self._ensure, stream))
            else:
                await self.retried(f"have the stream {stream.name} made", partial(self._look, stream))

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
            BusRefused: the user may not do that.
            BusUnavailable: it was not answered, or the connection is closed.
            BadRequestError, NotFoundError: the server's last word.
        """
        until, pause_s = time.monotonic() + self._config.timeout_s, _PAUSE_S
        while True:
            try:
                return await attempt()
            except nats.errors.ConnectionClosedError:
                raise self._unavailable(what) from None
            except Refused as e:
                raise self._refused(what, e) from None
            except nats.errors.Error as e:
                if isinstance(e, _FINAL):
                    raise
                await self._on_error(e)
            if (left_s := until - time.monotonic()) <= 0:
                raise self._unavailable(what)
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def subscribe(
        self, subject: str, queue: str = "", cb: Callable[[Msg], Awaitable[None]] | None = None
    ) -> Subscription:
        """A subscription that the server has taken.

        Raises:
            BusRefused: the user may not listen to that.
            BusUnavailable: the server does not answer.
        """
        subscription = await self.client.subscribe(subject, queue=queue, cb=cb)
        await self.retried(f"subscribe to {subject}", partial(self.client.allowed, subject, REQUEST_S))
        return subscription

    async def _look(self, stream: Stream) -> None:
        try:
            await self.js.stream_info(stream.name)
        except NotFoundError:
            raise nats.errors.Error("it is not there yet; a collector makes it when it starts, or `openforge run`") from None

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
        except BadRequestError as e:  # it stands with other settings, or too few servers of a cluster have come up
            try:
                there = (await self.js.stream_info(stream.name)).config.subjects or []
            except NotFoundError:
                raise nats.errors.Error(str(e)) from None
            config.subjects = merged(stream.subjects, there)
            await self.js.update_stream(config)

    def _unavailable(self, what: str) -> BusUnavailable:
        troubles = "; ".join(self._troubles) or "no error was reported"
        return BusUnavailable(
            f"NATS at {self._config.url} did not {what} in {self._config.timeout_s:g} s ({troubles}); "
            f"is it up, with JetStream, and does it know the key of the user {self._user}?"
        )

    def _refused(self, what: str, refusal: Refused) -> BusRefused:
        return BusRefused(
            f"NATS at {self._config.url} refuses the user {self._user} to {what}: {refusal}; it was given the key of somebody "
            "else, or the server has an older list of users (`openforge keys make` writes a new one)"
        )

    async def _on_error(self, error: Exception) -> None:
        """Keeps the latest troubles to tell."""
        refusal = refusal_in(str(error))
        self._trouble(f"refused to the user {self._user}: {refusal}" if refusal else str(error) or type(error).__name__)

    def _trouble(self, trouble: str) -> None:
        if trouble not in self._troubles:
            log.warning("NATS: %s", trouble)
            self._troubles.append(trouble)

    async def _on_reconnect(self) -> None:
        log.warning("NATS: connected again")
        self._troubles.clear()
