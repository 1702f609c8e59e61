"""A real trainer that kills itself at a named point: ``python -m tests.chaos.dying_trainer CONFIG [PHASE STEP]``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.app import serve
from services.trainer.groups.desk import GroupDesk
from services.trainer.journal.history import History
from services.trainer.journal.records import Done
from services.trainer.weights.client import VllmEngine
from shared.config import load_config

PHASES = ("before the ack", "in the update", "in the checkpoint", "in the push", "after the push")


def die() -> None:
    """kill -9, for real: nothing is flushed, nobody is told."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(phase: str, step: int) -> None:
    """Arms one death. What comes before it is done in full."""
    match phase:
        case "before the ack":
            _after(GroupDesk, "deliver", lambda desk, *_: desk._history.state.step == step - 1)
        case "in the update":
            _watch_learner("update", step)
        case "in the checkpoint":
            _watch_learner("save_checkpoint", step)
        case "in the push":
            _after(VllmEngine, "load", lambda _engine, _file, _sha256, version, *_: version == step)
        case "after the push":
            _before_done(step)
        case _:
            raise SystemExit(f"{phase!r} is none of {PHASES}")


def _after(owner: type, name: str, when: Any) -> None:
    plain = getattr(owner, name)

    async def dying(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = await plain(self, *args, **kwargs)
        if when(self, *args, **kwargs):
            die()
        return result

    setattr(owner, name, dying)


def _watch_learner(name: str, step: int) -> None:
    from services.trainer.learner import VerlLearner

    plain, calls = getattr(VerlLearner, name), [0]

    def dying(self: Any, *args: Any) -> Any:
        calls[0] += 1
        result = plain(self, *args)
        if (calls[0] if name == "update" else args[1]) == step:
            die()
        return result

    setattr(VerlLearner, name, dying)


def _before_done(step: int) -> None:
    plain = History.note

    async def dying(self: History, record: Any) -> None:
        if isinstance(record, Done) and record.step == step:
            die()
        await plain(self, record)

    History.note = dying  # type: ignore[method-assign]


def main(argv: Sequence[str]) -> None:
    """Serves the trainer until SIGTERM."""
    if len(argv) > 1:
        arm(argv[1], int(argv[2]))
    asyncio.run(serve("trainer", load_config(Path(argv[0]))))


if __name__ == "__main__":
    main(sys.argv[1:])
