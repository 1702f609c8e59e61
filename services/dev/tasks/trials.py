"""Rollouts without a model, for checks of tasks: the orchestrator's own way from command to reward, in real sandboxes."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from services.dev.scratch import scratch
from services.dev.tasks.counter import Counter
from services.orchestrator.gateway import NoSessions
from services.orchestrator.service import OrchestratorService
from services.orchestrator.site import Site, docker_site, local_site
from services.synth.books import Books
from services.synth.trials import BusTrials
from shared.bus.memory import Broker, MemoryBus
from shared.config import Config, OrchestratorConfig, ProxyConfig, RunConfig
from shared.errors import ConfigError


@asynccontextmanager
async def trials(settings: OrchestratorConfig, keep: Path | None = None) -> AsyncIterator[BusTrials]:
    """Trials of tasks with an orchestrator of their own; when it is left, whatever still runs is ended and cleared away.

    Args:
        settings: of the orchestrator.
        keep: folder for what the trials leave; None removes it.

    Raises:
        SandboxError: no sandbox can be had here.
        ConfigError: the backend is one that trials are not made in.
    """
    if settings.backend == "kubernetes":
        raise ConfigError("tasks are checked in local sandboxes or containers; pass --backend local or docker")
    async with AsyncExitStack() as stack:
        top = stack.enter_context(scratch())
        bus = MemoryBus(Broker())
        stack.push_async_callback(bus.close)
        run = RunConfig(id=f"check-{secrets.token_hex(3)}", root=str(keep or top))
        wanted = Config(run=run, orchestrator=_settled(settings, top))
        config, site = await stack.enter_async_context(_site(wanted, top / "counter"))
        service = OrchestratorService(config, bus, site, NoSessions())
        running = BusTrials(config, bus, Books(config))
        stack.push_async_callback(service.stop)
        await service.start()
        await running.start()
        yield running


def _settled(settings: OrchestratorConfig, top: Path) -> OrchestratorConfig:
    """With a place for sandboxes that goes with the trials, unless they are to be kept."""
    top.chmod(0o711)  # agents are other users
    own = not settings.work_root and settings.keep == "none"
    return msgspec.structs.replace(settings, work_root=str(top)) if own else settings


@asynccontextmanager
async def _site(config: Config, place: Path) -> AsyncIterator[tuple[Config, Site]]:
    """Where the trials are made; containers find a counter in the place of the proxy."""
    if config.orchestrator.backend == "local":
        yield config, local_site(config)
        return
    counter = Counter(place)
    try:
        await counter.start()
        config = msgspec.structs.replace(config, proxy=ProxyConfig(socket=counter.socket))
        yield config, docker_site(config, counter)
    finally:
        await counter.stop()
