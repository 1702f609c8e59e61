"""What is measured: each gateway in front of one fake engine, and the way to a session of it."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import aiohttp

from services.dev.servers import free_port
from shared.bus.nats import connect_nats
from shared.config import BusConfig
from shared.keys import OPERATOR
from tests.bench.bodies import PATHS, Api
from tests.bench.processes import Child, Failed
from tests.bench.rllm import install
from tests.embedded import nats, valkey

_HOST = "http://127.0.0.1"
_KEPT = 8 * 1024**3  # bytes of records


@dataclass(frozen=True)
class Gateway:
    """One server under test.

    Attributes:
        kind: how its sessions are opened.
        port: on 127.0.0.1.
        pid: of its process, None where there is none (`direct`).
        servers: pids of the servers that it needs.
        control_port: of ours, on 127.0.0.1.
        control_key: of ours.
        api: what its harnesses speak.
    """

    kind: Literal["direct", "floor", "openforge", "rllm"]
    port: int
    pid: int | None = None
    servers: tuple[int, ...] = ()
    control_port: int = 0
    control_key: str = ""
    api: Api = "chat"
    _opened: list[str] = field(default_factory=list)

    async def open(self, count: int) -> list[str]:
        """Request paths of new sessions."""
        path, names = PATHS[self.api], [f"bench-{secrets.token_hex(6)}-a1" for _ in range(count)]
        match self.kind:
            case "direct" | "floor":
                return [path] * count
            case "rllm":
                return [f"/sessions/{name}{path}" for name in names]
        self._opened[:] = names
        async with self._control() as http:
            return [f"/run/{secret}{path}" for secret in await asyncio.gather(*(_open(http, name) for name in names))]

    async def seal(self, calls: int) -> None:
        """Seals the sessions of ours that were opened last.

        Raises:
            Failed: one of them does not have `calls` calls, all on record and delivered.
        """
        async with self._control() as http:
            seals = await asyncio.gather(*(_seal(http, name) for name in self._opened))
        if wrong := [s for s in seals if s != {"calls": calls, "errored": [], "cut": [], "lost": []}]:
            raise Failed(f"a session of {calls} calls was sealed as {wrong[0]}")

    def _control(self) -> aiohttp.ClientSession:
        headers = {"authorization": f"Bearer {self.control_key}"}
        return aiohttp.ClientSession(f"{_HOST}:{self.control_port}", headers=headers, connector=aiohttp.TCPConnector(limit=16))


class World:
    """A fake engine, a NATS server, a valkey server, and gateways as they are asked for. Its processes end with `stack`."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._engine_port = free_port()
        self._nats, self._valkey = nats(folder / "nats"), valkey(folder / "valkey")
        self._proxies: dict[str, Gateway] = {}

    async def start(self) -> None:
        """Starts the engine and the servers."""
        for server in (self._nats, self._valkey):
            self._stack.callback(server.kill)
            await server.start()
        bus = BusConfig(url=self._nats.address.url, keys=self._nats.address.keys, max_bytes=_KEPT)
        await (await connect_nats(bus, "bench", OPERATOR)).close()  # makes the streams, for which proxies wait
        engine = self._child("engine", [sys.executable, "-m", "tests.bench.upstream", str(self._engine_port)])
        await engine.answering(f"{self._engine}/health")

    async def spliced(self) -> int:
        """How many calls have reached the engine as ids."""
        async with aiohttp.ClientSession() as http, http.get(f"{self._engine}/spliced") as response:
            return int(await response.text())

    async def gateway(self, name: str) -> Gateway:
        """`direct`, `floor`, `record`, `splice`, `anthropic` (through the proxy of `splice`) or `rllm`.

        Raises:
            Failed: it does not come up.
        """
        match name:
            case "direct":
                return Gateway("direct", self._engine_port)
            case "floor":
                return await self._floor()
            case "rllm":
                return await self._rllm()
            case "anthropic":
                return replace(await self._proxy("splice"), api="anthropic")
        return await self._proxy(name)

    async def _proxy(self, mode: str) -> Gateway:
        if mode not in self._proxies:
            self._proxies[mode] = await self._start_proxy(mode)
        return self._proxies[mode]

    async def _start_proxy(self, mode: str) -> Gateway:
        port, control, key, run = free_port(), free_port(), secrets.token_hex(8), f"bench-{mode}"
        config = {
            "run": {"id": run, "root": str(self._folder)},
            "bus": {"url": self._nats.address.url, "keys": self._nats.address.keys, "max_bytes": _KEPT},
            "store": {"url": self._valkey.address.url, "keys": self._valkey.address.keys},
            "engine": {"url": self._engine, "max_model_len": 131_072},
            "proxy": {"port": port, "control_port": control, "mode": mode},
        }
        file = self._folder / f"{run}.json"
        file.write_text(json.dumps(config))
        env = {"OPENFORGE_CONTROL_KEY": key}
        child = self._child(run, [sys.executable, "-m", "services.cli", "serve", "proxy", "--config", str(file)], env)
        await child.answering(f"{_HOST}:{control}/readyz")
        return Gateway("openforge", port, child.pid, (self._nats.pid, self._valkey.pid), control, key)

    async def _floor(self) -> Gateway:
        port, bus, store = free_port(), self._nats.address, self._valkey.address
        servers = [bus.url, bus.keys, store.url, store.keys]
        child = self._child("floor", [sys.executable, "-m", "tests.bench.floor", str(port), str(self._engine_port), *servers])
        await child.answering(f"{_HOST}:{port}/health")
        return Gateway("floor", port, child.pid, (self._nats.pid, self._valkey.pid))

    async def _rllm(self) -> Gateway:
        program, port = install(), free_port()
        command = [
            str(program),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--worker",
            f"{self._engine}/v1",
            "--store",
            "memory",
        ]
        child = self._child("rllm", command)
        await child.answering(f"{_HOST}:{port}/health")
        return Gateway("rllm", port, child.pid)

    @property
    def _engine(self) -> str:
        return f"{_HOST}:{self._engine_port}"

    def _child(self, name: str, command: list[str], env: dict[str, str] | None = None) -> Child:
        return self._stack.enter_context(Child(command, self._folder / f"{name}.log", env))


async def _open(http: aiohttp.ClientSession, name: str) -> str:
    meta = {"rollout_id": name.removesuffix("-a1"), "attempt": 1, "group_id": "bench", "purpose": "train"}
    async with http.put(f"/control/sessions/{name}", json=meta) as response:
        response.raise_for_status()
        return str((await response.json())["secret"])


async def _seal(http: aiohttp.ClientSession, name: str) -> dict[str, object]:
    async with http.post(f"/control/sessions/{name}/seal") as response:
        response.raise_for_status()
        return dict(await response.json())
