"""Sandboxes in containers, whatever runs them: the real runner fetches its work from a real proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from services.orchestrator.backends.port import Backend, Box, Resources
from services.orchestrator.depot import Depot
from services.orchestrator.sandbox import Isolation
from tests.hostile.arenas import Outcome, script
from tests.unit.orchestrator.runners import OTHER_UID, Bench

PYTHON = "/openforge/python/bin/python3"


class Contained:
    """One container at a time."""

    app = "/app"
    open_network = own_root = False
    outside = ""

    def __init__(self, bench: Bench, backend: Backend, resources: Resources) -> None:
        self._bench, self._backend, self._resources = bench, backend, resources
        bench.isolation = Isolation("container", True, OTHER_UID)

    async def run(self, order: dict[str, Any], *, timeout_s: float) -> Outcome:
        """See `Arena.run`."""
        spec = self._bench.spec(script(PYTHON, order), timeout_s=timeout_s, log_bytes=1_000_000)
        folders = {"tests": self._bench.task / "tests", "environment": self._bench.task / "environment"}
        box = Box("r1-a1", {}, spec, self._bench.records, harness="react", packages=folders, resources=self._resources)
        await self._backend.start(box)
        async for seen in self._backend.watch():
            if seen.stage == "ended":
                break
        if seen.status is None:
            raise AssertionError(f"{seen.error}: {(await self._backend.logs(box.name))[-2000:]!r}")
        printed = (await self._backend.logs(box.name)).decode(errors="replace")
        agent, _, verified = printed.partition("\n--- verify ---\n")
        return Outcome(seen.status, agent, verified)


@asynccontextmanager
async def cleared(backend: Backend, depot: Depot) -> AsyncIterator[None]:
    """Clears the sandboxes away afterwards."""
    try:
        yield
    finally:
        for seen in await backend.present():
            await backend.remove(seen.name)
        await backend.close()
        await depot.close()
