"""The trainer: carries a run from warm start to trained weights. Torch and veRL are imported only when a run begins."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from services.trainer.books.files import RunFiles, Summary
from services.trainer.books.picture import draw_run
from services.trainer.books.trackers import FINISH_S, Trackers, open_with_verl, wanted
from services.trainer.groups.desk import GroupDesk
from services.trainer.journal.history import History
from services.trainer.journal.records import Late, Sealed
from services.trainer.journal.resume import open_history, run_folder
from services.trainer.ports import Learner, LearnerFactory, LearnerSettings
from services.trainer.run import STOPPED, Run
from services.trainer.thread import LearnerThread
from services.trainer.tools import Tools
from services.trainer.weights.fleet import Fleet
from shared.bus import Bus
from shared.config import Config
from shared.errors import ConfigError, ForgeError, Rejected
from shared.events import (
    LATE,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RunFinished,
    RunStart,
    SessionSealed,
    TrajectoryDiscarded,
)
from shared.ids import session_id
from shared.store.blobs import Blobs
from shared.store.sessions import Sessions
from shared.watch.watch import Watch

log = logging.getLogger(__name__)

_STOP_S = 3.0
"""How long a trainer that is stopped waits for trackers."""


def verl_learner(model: Path, settings: LearnerSettings) -> Learner:
    """A learner on veRL's training worker."""
    # Torch's threads spin while they wait for each other. With as many processes as cores, a step then takes ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if settings.parallel.nnodes and settings.parallel.device == "cuda":
        os.environ.setdefault("VERL_PLATFORM", "nvidia")  # veRL reads it once; the learner's processes get it, too
    from services.trainer.learner import VerlLearner

    return VerlLearner(model, settings)


class TrainerService:
    """The trainer of one run.

    Args:
        config: resolved.
        bus: starts the run, brings groups, is told of everything.
        sessions: say which engines take calls.
        blobs: holds groups that are too large for the bus.
        factory: makes learners.
        draw: draws the picture of a run into its folder, at the end.
        watch: tells what is waited for.
    """

    def __init__(
        self, config: Config, bus: Bus, sessions: Sessions, blobs: Blobs, *, factory: LearnerFactory = verl_learner,
        draw: Callable[[Path], Path] = draw_run, watch: Watch | None = None,
    ) -> None:  # fmt: skip
        self._config = config
        self._bus = bus
        self._sessions = sessions
        self._blobs = blobs
        self._factory = factory
        self._draw = draw
        self._thread = LearnerThread()
        self._history: History | None = None
        self._run: asyncio.Task[Summary] | None = None
        self._watch = watch or Watch("trainer")
        self._watch.sources.append(self._look)

    async def start(self) -> None:
        """Returns when the service waits for its run to be started."""
        await self._bus.consume("trainer", [RunStart], self._on_start, run_id=self._config.run.id, concurrency=1)

    async def stop(self) -> None:
        """Stops the run, if one goes on; the next trainer takes it up."""
        self._thread.close()
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait([self._run])
        if self._history is not None:
            self._history.journal.close()

    async def _look(self) -> None:
        if self._history is not None:
            state = self._history.state
            self._watch.meters.set("groups_awaited", sum(group.closed is None for group in state.groups.values()))
            self._watch.meters.set("weight_version", state.version)

    async def _on_start(self, message: Message) -> None:
        """Returns when the run has ended and that is reported, so that a trainer that dies is asked again to carry it out."""
        if message.run_id != self._config.run.id:
            raise Rejected(f"this trainer is configured for run {self._config.run.id}, not {message.run_id}")
        assert isinstance(message, RunStart)
        if self._run is None:
            self._run = asyncio.create_task(self._carry_out())
        summary = await asyncio.shield(self._run)
        builtins = msgspec.to_builtins(summary)
        await self._bus.publish(
            RunFinished(run_id=summary.run_id, nonce=message.nonce, ok=summary.ok, error=summary.error, summary=builtins)
        )

    async def _carry_out(self) -> Summary:
        """The run, from where it stands to its end."""
        summary = self._summary()
        try:
            files = RunFiles(run_folder(self._config), self._config.trainer.max_actor_ckpt_to_keep)
            history = self._history = await open_history(files, self._config)
        except (ForgeError, OSError) as e:
            log.error("the run cannot be begun", exc_info=e)
            summary.error = " ".join(str(e).split())
            return summary
        desk = GroupDesk(self._config, self._bus, self._blobs, history)
        await self._listen(desk, history)
        folder = run_folder(self._config)
        trackers = Trackers(wanted(self._config), open_with_verl(self._config, folder))
        files.metrics.told = trackers.log
        await Run(self._tools(files, summary, desk, history)).execute()
        stopped = summary.error == STOPPED
        await asyncio.to_thread(trackers.finish, summary.ok, _STOP_S if stopped else FINISH_S)
        if not stopped:
            await asyncio.to_thread(self._leave_picture, folder)
        return summary

    def _leave_picture(self, folder: Path) -> None:
        try:
            self._draw(folder)
        except ConfigError as e:
            log.info("no picture: %s", e)
        except Exception:  # of a library that no run depends on
            log.exception("the picture could not be drawn; `openforge plot` tries again")

    async def _listen(self, desk: GroupDesk, history: History) -> None:
        async def on_session(message: Message) -> None:
            if isinstance(message, TrajectoryDiscarded) and message.purpose == "train" and message.reason == LATE:
                session = session_id(message.rollout_id, message.attempt)
                await history.note(Late(session=session, tokens=message.tokens))
            if isinstance(message, SessionSealed) and message.purpose == "train":
                unrecorded = len(message.errored) + len(message.lost)
                recorded = message.calls - unrecorded
                await history.note(Sealed(session=message.session_id, recorded=recorded, unrecorded=unrecorded))

        run = self._config.run.id
        await self._bus.consume("trainer-groups", [GroupCompleted, GroupDiscarded], desk.deliver, run_id=run)
        await self._bus.consume("trainer-sessions", [SessionSealed, TrajectoryDiscarded], on_session, run_id=run)

    def _summary(self) -> Summary:
        config = self._config
        return Summary(
            run_id=config.run.id,
            seed=config.run.seed,
            model=config.engine.model,
            harness=config.trainer.harness,
            reward=config.orchestrator.reward,
            mode=config.proxy.mode,
            eval_episodes=config.trainer.eval_episodes,
        )

    def _tools(self, files: RunFiles, summary: Summary, desk: GroupDesk, history: History) -> Tools:
        config = self._config
        return Tools(
            config=config,
            bus=self._bus,
            sessions=self._sessions,
            engine=Fleet(config.engine.addresses, config.engine.served_name),
            desk=desk,
            history=history,
            files=files,
            summary=summary,
            factory=self._factory,
            thread=self._thread,
        )
