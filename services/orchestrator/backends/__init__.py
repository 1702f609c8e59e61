"""Where sandboxes run: the port that the orchestrator drives them through."""

from __future__ import annotations

from typing import Protocol

from services.orchestrator.spec import Spec, Status


class Backend(Protocol):
    """Runners by session id. They live on when the orchestrator dies, and are found again by its successor."""

    def start(self, session_id: str, spec: Spec) -> None:
        """Starts a runner; the spec is kept beforehand.

        Raises:
            SandboxError: it could not be started.
        """
        ...

    async def wait(self, session_id: str) -> Status:
        """Waits until a runner ended, whoever started it and however long ago, and gives its final status.

        Raises:
            SandboxError: it died without one.
        """
        ...

    def cancel(self, session_id: str) -> None:
        """Asks a runner to end everything and itself; one that is not running is left alone."""
        ...

    def limit(self, session_id: str) -> float:
        """Wall-clock limit in seconds that the agent of a runner was given."""
        ...

    def close(self) -> None:
        """Lets go of what starting takes; runners that live go on."""
        ...
