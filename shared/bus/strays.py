"""Keeps what is published under our root on a subject that no stream takes.

NATS tells the publisher of such a message that nobody is there, if it asks at all. A stream cannot take "all the rest", as the
subjects of two streams may not overlap; a plain subscription can. It is given every message, of which the client passes over
those that a stream takes before it does anything about them.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError

from shared.bus.acks import Ack
from shared.bus.client import STRAYS
from shared.bus.link import Link
from shared.errors import ForgeError
from shared.subjects import ROOT

log = logging.getLogger(__name__)

REASON = "no message type is published on this subject"

Bury = Callable[[str, bytes, str, str, str], Awaitable[Ack]]
"""Keeps a dead letter: subject, body, consumer, reason, id."""


class Strays:
    """The share of one connection in it; of several, one is given a message.

    Args:
        link: the connection.
        bury: makes a dead letter of a message.
        counts: where they are counted, as `dead`.
    """

    def __init__(self, link: Link, bury: Bury, counts: Counter[str]) -> None:
        self._link, self._bury, self._counts = link, bury, counts

    async def open(self) -> None:
        """Begins; returns when the server knows of it."""
        await self._link.subscribe(f"{ROOT}.>", STRAYS, self._keep)

    async def _keep(self, message: Msg) -> None:
        try:
            if await self._is_taken(message.subject):
                return
            log.error("%s: %s", message.subject, REASON)
            ack = await self._bury(message.subject, message.data, STRAYS, REASON, f"{STRAYS}/{secrets.token_hex(8)}")
            self._counts["dead"] += 1
            if message.reply:
                await self._link.client.publish(message.reply, msgspec.json.encode(ack))
        except (nats.errors.Error, ForgeError) as e:
            log.warning("a message on %s could not be kept: %s", message.subject, e)

    async def _is_taken(self, subject: str) -> bool:
        """Whether a stream has it after all, made by another version of us."""
        try:
            await self._link.js.find_stream_name_by_subject(subject)
        except NotFoundError:
            return False
        return True
