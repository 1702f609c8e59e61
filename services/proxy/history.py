"""What other proxies recorded of a session, read back from the bus."""

from __future__ import annotations

import logging

from services.proxy.known import Book, Session
from services.proxy.sessions import SessionMeta
from services.proxy.stops import Stops
from shared.bus import Bus
from shared.events import CallRecorded

log = logging.getLogger(__name__)


class History:
    """Records of one run.

    Args:
        bus: keeps them.
        book: told how much a session grew.
        stops: told which tokens ended replies.
        run_id: of the run.
    """

    def __init__(self, bus: Bus, book: Book, stops: Stops, run_id: str) -> None:
        self._bus = bus
        self._book = book
        self._stops = stops
        self._run_id = run_id

    async def catch_up(self, session_id: str, meta: SessionMeta, session: Session) -> None:
        """Takes in what was recorded elsewhere since the last time.

        A call's record is durable before its reply is whole: whatever a harness goes on from is there.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        async for position, message in self._bus.replay(CallRecorded, self._run_id, meta.rollout_id, session.replayed):
            session.replayed = position
            if isinstance(message, CallRecorded) and message.session_id == session_id:
                session.learn(message)
                if message.stop_id is not None:
                    self._stops.known.add(message.stop_id)
        self._book.grew(session_id)
