"""Task synthesis. For now the service listens on its subjects and turns every request down with a reason."""

from __future__ import annotations

from shared.bus import Bus
from shared.config import Config
from shared.errors import Rejected
from shared.events import Message, SynthStart, TaskRejected


class SynthService:
    """Answers `synth.start` with `task.rejected`, so that whoever asks is told at once instead of waiting."""

    def __init__(self, config: Config, bus: Bus) -> None:
        self._config = config
        self._bus = bus

    async def start(self) -> None:
        """Returns when the subscription stands."""
        await self._bus.consume("synth", [SynthStart], self._handle, run_id=self._config.run.id)

    async def stop(self) -> None:
        """Nothing is kept between messages."""

    async def _handle(self, message: Message) -> None:
        if not isinstance(message, SynthStart):
            raise Rejected(f"synth does not handle {type(message).__name__}")
        detail = "this version has no generator of tasks yet"
        await self._bus.publish(TaskRejected(run_id=message.run_id, task_id=message.task_id, detail=detail))
