"""Two real proxy processes before one scripted engine, with a real bus and store; a proxy may be killed and started again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiohttp
import msgspec

from services.dev.servers import free_port, wait_port
from shared.bus import Bus
from shared.bus.nats import connect_nats
from shared.config import BusConfig, Config, EngineConfig, ProxyConfig, RunConfig, StoreConfig
from shared.events import CallRecorded, SessionSealed
from shared.keys import OPERATOR
from tests.embedded import nats, valkey

REPO = Path(__file__).parents[2]
KEY = "control-key"
_START_S = 60.0
_CONTROL = {"authorization": f"Bearer {KEY}"}


class Program:
    """A program that listens on a port; killed and started again it has the same port."""

    def __init__(self, port: int, command: Sequence[str], env: dict[str, str], log: Path, control_port: int = 0) -> None:
        self.url, self.control_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{control_port}"
        self._ports = [p for p in (port, control_port) if p]
        self._command, self._env, self._log = command, env, log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns when it listens."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, cwd=REPO, env={**os.environ, **self._env}, stdout=log, stderr=log
            )
        for port in self._ports:
            await wait_port(port, _START_S)

    async def kill(self) -> None:
        """kill -9, unless it is dead already."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@dataclass(frozen=True, slots=True)
class Fleet:
    """What runs, and the secrets that services of it need in their environment."""

    config: Config
    proxies: tuple[Program, Program]
    bus: Bus
    http: aiohttp.ClientSession
    engine_log: Path
    env: dict[str, str]

    async def open(self, session_id: str) -> str:
        """Opens a session; gives the path for its harness."""
        meta = {"rollout_id": session_id.rpartition("-a")[0], "attempt": 1, "group_id": "g1", "purpose": "train"}
        url = f"{self.proxies[0].control_url}/control/sessions/{session_id}"
        async with self.http.put(url, json=meta, headers=_CONTROL) as response:
            assert response.status == 200, await response.text()
            return str((await response.json())["path"])

    async def seal(self, session_id: str) -> SessionSealed:
        """Seals a session; gives what was published of it."""
        url = f"{self.proxies[1].control_url}/control/sessions/{session_id}/seal"
        async with self.http.post(url, headers=_CONTROL) as response:
            assert response.status == 200, await response.text()
        found = self.bus.replay(SessionSealed, self.config.run.id, session_id.rpartition("-a")[0], 0)
        [sealed] = [message async for _, message in found if isinstance(message, SessionSealed)]
        return sealed

    async def records(self, session_id: str) -> list[CallRecorded]:
        """The records of a session in the order of their numbers."""
        found = self.bus.replay(CallRecorded, self.config.run.id, session_id.rpartition("-a")[0], 0)
        return sorted([message async for _, message in found if isinstance(message, CallRecorded)], key=lambda r: r.seq)

    def engine_calls(self) -> list[dict[str, Any]]:
        """What the engine sampled, call by call."""
        return [json.loads(line) for line in self.engine_log.read_text().splitlines()]


@asynccontextmanager
async def fleet(folder: Path, mode: Literal["record", "splice"], rules: Iterable[dict[str, Any]]) -> AsyncIterator[Fleet]:
    """A fleet whose engine follows `rules` (`tests.engine.script`)."""
    broker, store = nats(folder / "nats"), valkey(folder / "valkey")
    async with AsyncExitStack() as stack:
        for server in (broker, store):
            stack.callback(server.kill)
            await server.start()
        engine = _engine(folder, rules)
        config = Config(
            run=RunConfig(id="run1"), bus=BusConfig(url=broker.address.url, keys=broker.address.keys),
            store=StoreConfig(url=store.address.url, keys=store.address.keys),
            engine=EngineConfig(url=engine.url), proxy=ProxyConfig(mode=mode, drain_s=5.0),
        )  # fmt: skip
        env = {
            config.proxy.control_key_env: KEY,
        }
        proxies = (_proxy(folder / "proxy0", config, env), _proxy(folder / "proxy1", config, env))
        bus = await connect_nats(config.bus, config.run.id, OPERATOR)  # makes the streams, for which proxies wait
        stack.push_async_callback(bus.close)
        for program in (engine, *proxies):
            stack.push_async_callback(program.kill)
            await program.start()
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield Fleet(config, proxies, bus, http, folder / "engine.jsonl", env)


def _engine(folder: Path, rules: Iterable[dict[str, Any]]) -> Program:
    port, script = free_port(), folder / "script.json"
    script.write_text(json.dumps({"rules": list(rules)}))
    command = [sys.executable, "-m", "tests.engine.scripted", "--port", str(port), "--script", str(script)]
    return Program(port, [*command, "--log", str(folder / "engine.jsonl")], {}, folder / "engine.log")


def _proxy(folder: Path, config: Config, env: dict[str, str]) -> Program:
    folder.mkdir()
    port, control_port, file = free_port(), free_port(), folder / "config.json"
    proxy = msgspec.structs.replace(config.proxy, port=port, control_port=control_port)
    own = msgspec.structs.replace(config, run=RunConfig(id=config.run.id, root=str(folder)), proxy=proxy)
    file.write_bytes(msgspec.json.encode(own))
    command = [sys.executable, "-m", "services.cli", "serve", "proxy", "--config", str(file)]
    return Program(port, command, env, folder / "proxy.log", control_port)
