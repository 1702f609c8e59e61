"""Numbers calls and settles them in the store; a settling is repeated until the store has it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Literal

from services.proxy.client import EVENTS, Client
from services.proxy.errors import Refused, unavailable
from shared.errors import StoreUnavailable
from shared.store.sessions import Begun, CallEnd, Ended, Sessions
from shared.watch.meters import Meters

log = logging.getLogger(__name__)

Ending = CallEnd | Literal["lost"]

HOLD_POLL_S = 0.05
SIGN_S = 10.0
"""Seconds between signs of life on a stream that waits."""
_SIGN = b"\r\n"  # an empty line, since Gemini CLI does not pass over a comment
SETTLE_S = 0.01
"""Settlings of so long go to the store together: one costs as much as ten. A proxy that is killed leaves these calls open."""

RETRY_S = 0.5


class Wait:
    """What is left of the patience with a call that cannot begin yet.

    Args:
        client: is shown signs of life, if it wants a stream.
        hold_s: how long it waits in all.
        streamed: it wants a stream.

    Attributes:
        refused: engines that could not be reached since the last pause.
        held_s: seconds that it waited for an engine that takes calls.
    """

    def __init__(self, client: Client, hold_s: float, streamed: bool) -> None:
        self._client, self._streamed, self._hold_s = client, streamed, hold_s
        self.refused: set[str] = set()
        self.held_s = 0.0
        self.renew()

    def renew(self) -> None:
        """The patience begins anew."""
        now = time.monotonic()
        self._until, self._sign = now + self._hold_s, now + SIGN_S

    async def pause(self, why: str) -> None:
        """Waits for a moment.

        Raises:
            Refused: 503 `why`, the patience is at its end.
            ClientLeft: the client hung up.
        """
        if self._streamed and time.monotonic() >= self._sign:
            self._sign = time.monotonic() + SIGN_S
            await self._client.start(200, EVENTS, cache_control="no-cache")
            await self._client.send(_SIGN)
        if time.monotonic() >= self._until:
            raise unavailable(why)
        began = time.monotonic()
        await self._client.unless_left(asyncio.sleep(HOLD_POLL_S))
        self.held_s += time.monotonic() - began


class Ledger:
    """The open calls of this proxy.

    Args:
        sessions: the store's side.
        proxy_id: under which intents are left.
        hold_s: how long a call waits while no engine takes it.
        meters: count calls that waited.
    """

    def __init__(self, sessions: Sessions, proxy_id: str, hold_s: float, meters: Meters) -> None:
        self._sessions = sessions
        self._proxy_id = proxy_id
        self._hold_s = hold_s
        self._meters = meters
        self._ended: list[Ended] = []
        self._settling: asyncio.Task[None] | None = None

    async def begin(self, secret: str, wait: Wait) -> Begun:
        """Gives a call its number and leaves its intent; waits while no engine takes calls.

        Raises:
            Refused: 401 unknown secret, 403 sealed session, 503 held for too long or no store.
            ClientLeft: the client hung up while it waited.
        """
        while True:
            try:
                reply = await self._sessions.begin(secret, self._proxy_id)
            except StoreUnavailable as e:
                raise unavailable(str(e)) from None
            match reply:
                case Begun():
                    if wait.held_s:
                        self._count(wait)
                    return reply
                case "unknown":
                    raise _unknown()
                case "sealed":
                    raise _sealed()
            await wait.pause(f"weights were being loaded, or not known, for more than {self._hold_s:g} s (proxy.hold_s)")

    async def move(self, begun: Begun, wait: Wait, why: Refused) -> Begun:
        """Gives a call whose engine cannot be reached to another; waits while there is none.

        Raises:
            Refused: `why`, after `proxy.hold_s`; 403 the session was sealed meanwhile; 503 no store.
            ClientLeft: the client hung up while it waited.
        """
        wait.refused.add(begun.replica)
        while True:
            try:
                moved = await self._sessions.move(begun, wait.refused)
            except StoreUnavailable as e:
                raise unavailable(str(e)) from None
            if moved == "sealed":
                raise _sealed()
            if isinstance(moved, Begun) and moved.replica not in wait.refused:
                return moved
            wait.refused.clear()
            await wait.pause(str(why))
            if isinstance(moved, Begun):
                return moved

    def wait(self, client: Client, *, waiting: bool) -> Wait:
        """The patience with one call, which begins now. `waiting`: the client wants a stream, on which it is shown that."""
        return Wait(client, self._hold_s, waiting)

    def _count(self, wait: Wait) -> None:
        self._meters.add("calls_held_total")
        self._meters.add("calls_held_seconds_total", wait.held_s)

    async def check(self, secret: str) -> None:
        """Raises Refused unless the secret opens a session."""
        try:
            status = await self._sessions.status(secret)
        except StoreUnavailable as e:
            raise unavailable(str(e)) from None
        if status != "live":
            raise _unknown() if status is None else _sealed()

    def settle(self, begun: Begun, ending: Ending) -> None:
        """Settles a call in the background; sealing sees it open until that is done."""
        self._ended.append(Ended(begun.session_id, begun.seq, ending))
        if self._settling is None:
            self._settling = asyncio.create_task(self._settle())

    async def stop(self, within_s: float) -> None:
        """Waits for settlings under way, and gives up on those that take longer: their intents stay open."""
        if self._settling is not None:
            _, late = await asyncio.wait({self._settling}, timeout=within_s)
            for task in late:
                task.cancel()

    async def _settle(self) -> None:
        try:
            while self._ended:
                await asyncio.sleep(SETTLE_S)
                ended, self._ended = self._ended, []
                await self._until_settled(ended)
        finally:  # whatever happened, later calls are settled
            self._settling = None

    async def _until_settled(self, ended: list[Ended]) -> None:
        while True:  # an intent left open would hold back the next weights for as long as this proxy lives
            try:
                await self._sessions.end_all(ended)
                return
            except StoreUnavailable as e:
                log.warning("%d calls stay open for now: %s", len(ended), e)
                await asyncio.sleep(RETRY_S)


def _unknown() -> Refused:
    return Refused(401, "invalid_api_key", "no such session: the key or the path holds no valid secret, or the store lost it")


def _sealed() -> Refused:
    return Refused(403, "session_sealed", "this session is sealed; no further calls are taken")
