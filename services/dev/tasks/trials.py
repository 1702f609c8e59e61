"""Rollouts without a model, for checks of tasks: the orchestrator's own way from command to reward, in real sandboxes."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from services.dev.tasks.counter import Counter
from services.orchestrator.gateway import NoSessions
from services.orchestrator.runner.report import STATUS_LINE
from services.orchestrator.service import OrchestratorService
from services.orchestrator.site import Site, docker_site, local_site
from shared.bus.memory import Broker, MemoryBus
from shared.config import Config, OrchestratorConfig, ProxyConfig, RunConfig
from shared.errors import ConfigError
from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart, RolloutTimedOut
from shared.ids import session_id
from shared.subjects import tap_pattern

Agent = Literal["null", "oracle"]
_SAID = 400
_PRINTED = "sandbox"
"""Name of the log of a container, which has agent and verifier in one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A run of a task that is wanted: number of the task, agent, and which of several runs."""

    task: int
    agent: Agent
    run: int = 1

    @property
    def id(self) -> str:
        """Name of its rollout."""
        return f"t{self.task}-{self.agent}-{self.run}"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a trial ended.

    Attributes:
        trial: which.
        reward: None if there is none.
        error: why not, or that the agent ran out of time or failed.
        seconds: of agent and verifier.
        said: end of what agent and verifier printed.
    """

    trial: Trial
    reward: float | None
    error: str = ""
    seconds: float = 0.0
    said: str = ""


class Trials:
    """An orchestrator in this process that runs trials; see `trials`."""

    def __init__(self, config: Config, bus: MemoryBus, folders: Sequence[Path]) -> None:
        self._config = config
        self._bus = bus
        self._folders = folders

    async def run(self, wanted: Sequence[Trial]) -> AsyncIterator[Ended]:
        """Runs trials, several at once, and yields each as it ends."""
        left = {trial.id: trial for trial in wanted}
        taps = self._bus.tap(tap_pattern("evt", self._config.run.id))
        for trial in wanted:
            await self._bus.publish(self._start(trial))
        async for tapped in taps:
            message = tapped.message
            if message is None or message.key not in left or not _is_last(message):
                continue
            yield self._ended(left.pop(message.key), message)
            if not left:
                return

    def _start(self, trial: Trial) -> RolloutStart:
        return RolloutStart(
            run_id=self._config.run.id, rollout_id=trial.id, group_id=trial.id, group_size=1, purpose="eval",
            task_dir=str(self._folders[trial.task].resolve()), harness=trial.agent,
        )  # fmt: skip

    def _ended(self, trial: Trial, message: Message) -> Ended:
        match message:
            case RolloutFinished():
                failed = f"the agent's exit code was {message.exit_code}" if message.exit_code else ""
                seconds = message.agent_s + message.verify_s
                return Ended(trial, message.reward, failed, seconds, self._said(trial, message.attempt))
            case RolloutTimedOut():
                why = f"out of time after {message.limit_s:g} s"
                return Ended(trial, message.reward, why, message.agent_s, self._said(trial, message.attempt))
            case RolloutFailed():
                return Ended(trial, None, f"{message.reason}: {message.detail}", 0.0, self._said(trial, message.attempt))
        raise AssertionError(message)

    def _said(self, trial: Trial, attempt: int) -> str:
        folder = Path(self._config.run.root) / self._config.run.id / "rollouts" / session_id(trial.id, attempt)
        logs = [log for name in ("agent", "verify", _PRINTED) for log in sorted(folder.glob(f"{name}*.log"))]
        return "\n".join(text for log in logs if (text := _end_of(log)))


@asynccontextmanager
async def trials(settings: OrchestratorConfig, folders: Sequence[Path], keep: Path | None = None) -> AsyncIterator[Trials]:
    """An orchestrator for trials of tasks; when it is left, whatever still runs is ended and cleared away.

    Args:
        settings: of the orchestrator.
        folders: of the tasks.
        keep: folder for what the trials leave; None removes it.

    Raises:
        SandboxError: no sandbox can be had here.
        ConfigError: the backend is one that trials are not made in.
    """
    if settings.backend == "kubernetes":
        raise ConfigError("tasks are checked in local sandboxes or containers; pass --backend local or docker")
    root = keep or Path(tempfile.mkdtemp(prefix="openforge-check-"))
    run = RunConfig(id=f"check-{secrets.token_hex(3)}", root=str(root))
    bus = MemoryBus(Broker())
    try:
        async with _site(Config(run=run, orchestrator=settings)) as (config, site):
            service = OrchestratorService(config, bus, site, NoSessions())
            try:
                await service.start()
                yield Trials(config, bus, folders)
            finally:
                await service.stop()
    finally:
        await bus.close()
        if keep is None:
            shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def _site(config: Config) -> AsyncIterator[tuple[Config, Site]]:
    """Where the trials are made; containers find a counter in the place of the proxy."""
    if config.orchestrator.backend == "local":
        yield config, local_site(config)
        return
    counter = Counter()
    try:
        await counter.start()
        config = msgspec.structs.replace(config, proxy=ProxyConfig(socket=counter.socket))
        yield config, docker_site(config, counter)
    finally:
        await counter.stop()


def _end_of(log: Path) -> str:
    """The last words of agent or verifier; of a container, which prints both, without its status."""
    text = log.read_text(errors="replace")
    if log.stem == _PRINTED:
        return text.rpartition(f"\n{STATUS_LINE}")[0][-2 * _SAID :].strip() or text[-_SAID:].strip()
    return text[-_SAID:].strip()


def _is_last(message: Message) -> bool:
    return isinstance(message, RolloutFinished | RolloutTimedOut) or (isinstance(message, RolloutFailed) and message.final)
