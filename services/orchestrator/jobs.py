"""A rollout that is being worked on, as long as it is not over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from services.orchestrator.queue import Ticket
from services.orchestrator.records import Asked
from services.orchestrator.spec import Status
from services.orchestrator.stages import Course
from services.orchestrator.state import Rollout
from shared.ids import session_id

_VERIFIER = "-verify"


@dataclass(slots=True, eq=False)
class Job:
    """What the orchestrator knows of it beyond where it stands.

    Attributes:
        rollout: where it stands.
        asked: what the current attempt's sandbox is asked for with, from then on (or from before a restart).
        made: the backend took that.
        verifier: name of the sandbox of its own that its verifier runs in, once the agent's has ended.
        announced: it was said on the bus that the current attempt waits.
        sealed: the current attempt's session was sealed.
        cancelled: somebody asked for its end.
        number: place in the order in which rollouts were asked for.
        waiting_since: when the current attempt began to wait, by the monotonic clock; 0 if an earlier one let it begin.
        queue_s: seconds that it waited.
        course: of its sandbox.
        status: its runner's last one.
        image: digest of the image of its agent's sandbox, once that is known.
        task: works on the current attempt.
        ended: session of the attempt whose outcome is being said; its sandbox is needed until then.
    """

    rollout: Rollout
    asked: Asked | None = None
    made: bool = False
    verifier: str = ""
    announced: bool = False
    sealed: bool = False
    cancelled: bool = False
    number: int = 0
    waiting_since: float = 0.0
    queue_s: float = 0.0
    course: Course | None = None
    status: Status | None = None
    image: str = ""
    task: asyncio.Task[None] | None = None
    ended: str = ""

    def forget_attempt(self) -> None:
        """The current attempt has its outcome; the next one starts from nothing."""
        self.asked, self.made, self.announced, self.sealed, self.verifier = None, False, False, False, ""
        self.waiting_since, self.queue_s, self.course, self.status, self.image = 0.0, 0.0, None, None, ""

    @property
    def id(self) -> str:
        """Of the rollout."""
        return self.rollout.start.rollout_id

    @property
    def session(self) -> str:
        """Of the current attempt."""
        return session_of(self.rollout)

    @property
    def sandbox(self) -> str:
        """Name of the sandbox that the current attempt has come to."""
        return self.verifier or self.session

    @property
    def ticket(self) -> Ticket:
        """Its place in the queue."""
        start = self.rollout.start
        return Ticket(-start.priority, self.number, start.rollout_id, self.rollout.task)


def session_of(rollout: Rollout) -> str:
    """Session of a rollout's current attempt."""
    return session_id(rollout.start.rollout_id, rollout.attempt)


def verifier_of(session: str) -> str:
    """Name of the sandbox in which an attempt's verifier runs, if it has one of its own."""
    return f"{session}{_VERIFIER}"


def attempt_of(sandbox: str) -> str:
    """Session of the attempt to which a sandbox belongs."""
    return sandbox.removesuffix(_VERIFIER)
