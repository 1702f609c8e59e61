"""Rollouts without a model, for checks of tasks: the orchestrator's own way from command to reward, in real sandboxes."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

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
    root = keep or Path(tempfile.mkdtemp(prefix="openforge-check-"))
    run = RunConfig(id=f"check-{secrets.token_hex(3)}", root=str(root))
    bus = MemoryBus(Broker())
    try:
        async with _site(Config(run=run, orchestrator=settings)) as (config, site):
            service = OrchestratorService(config, bus, site, NoSessions())
            running = BusTrials(config, bus, Books(config))
            try:
                await service.start()
                await running.start()
                yield running
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
