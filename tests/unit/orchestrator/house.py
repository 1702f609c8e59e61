"""What the tests of this folder share: task folders, a stand-in for the proxy with a scripted model, running orchestrators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from services.orchestrator.gateway import Gateway
from services.orchestrator.service import OrchestratorService
from services.orchestrator.site import local_site
from shared.bus.memory import Broker, MemoryBus
from shared.config import Config, OrchestratorConfig, ProxyConfig, RunConfig
from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart, RolloutTimedOut, decode
from tests.unit.orchestrator.runners import isolation_of

KEY = "control-key"
RUN = "run1"
OUTCOMES = (RolloutFinished, RolloutTimedOut, RolloutFailed)

Reply = dict[str, Any]
MakeTask = Callable[..., Path]
Script = Callable[[list[Reply]], Reply]
"""From a conversation to the assistant's next message."""


def bash(command: str) -> Reply:
    """An assistant message that calls the tool."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "bash", "arguments": msgspec.json.encode({"command": command}).decode()},
    }
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def commands(*lines: str) -> Script:
    """A model that has these commands run one after the other, and then says done."""

    def answer(messages: list[Reply]) -> Reply:
        turn = sum(m["role"] == "assistant" for m in messages)
        return bash(lines[turn]) if turn < len(lines) else {"role": "assistant", "content": "done"}

    return answer


@dataclass
class StandIn:
    """The proxy's control routes and chat route; `lost` and `status` are what tests turn."""

    script: Script = field(default_factory=lambda: commands())
    port: int = 0
    opened: dict[str, Reply] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    errored: dict[str, list[int]] = field(default_factory=dict)
    lost: dict[str, list[int]] = field(default_factory=dict)
    sealed: list[str] = field(default_factory=list)
    most_open: int = 0
    chat_status: int = 200
    control_status: list[int] = field(default_factory=list)
    """Answers that the next control requests get instead of theirs."""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_put("/control/sessions/{session}", self._open)
        app.router.add_post("/control/sessions/{session}/seal", self._seal)
        app.router.add_post("/run/{session}/v1/chat/completions", self._chat)
        return app

    async def _open(self, request: web.Request) -> web.Response:
        if self.control_status:
            return web.Response(status=self.control_status.pop(0))
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"detail": "wrong key"}, status=401)
        session = request.match_info["session"]
        self.opened[session] = await request.json()
        self.calls.setdefault(session, 0)
        self.most_open = max(self.most_open, len(self.opened) - len(set(self.sealed)))
        return web.json_response({"secret": session, "path": f"/run/{session}"})

    async def _seal(self, request: web.Request) -> web.Response:
        if self.control_status:
            return web.Response(status=self.control_status.pop(0))
        session = request.match_info["session"]
        if session not in self.opened:
            return web.json_response({"detail": "no such session"}, status=404)
        self.sealed.append(session)
        errored, lost = self.errored.get(session, []), self.lost.get(session, [])
        return web.json_response({"calls": self.calls[session], "errored": errored, "cut": [], "lost": lost})

    async def _chat(self, request: web.Request) -> web.Response:
        session = request.match_info["session"]
        self.calls[session] += 1
        if self.chat_status != 200:
            self.errored.setdefault(session, []).append(self.calls[session])
            return web.Response(status=self.chat_status)
        body = await request.json()
        return web.json_response({"choices": [{"message": self.script(body["messages"]), "finish_reason": "stop"}]})


@pytest.fixture
async def proxy() -> AsyncIterator[StandIn]:
    stand_in = StandIn()
    runner = web.AppRunner(stand_in.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stand_in.port = runner.addresses[0][1]
    yield stand_in
    await runner.cleanup()


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes a task folder; its verifier rewards that `out.txt` holds `hello`, unless another script is given."""

    def make(name: str = "task", *, test: str = "", toml: str = "", files: dict[str, str] | None = None) -> Path:
        folder = tmp_path / "tasks" / name
        default = 'if [ "$(cat out.txt)" = hello ]; then echo 1; else echo 0; fi > "$LOGS_DIR/verifier/reward.txt"'
        parts = {
            "task.toml": toml or f'[task]\nname = "demo/{name}"\n', "instruction.md": "Write hello to out.txt.\n",
            "tests/test.sh": f"#!/bin/sh\n{test or default}\n",
        }  # fmt: skip
        for path, text in {**parts, **(files or {})}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    return make


class Ear:
    """What is published, in order; `outcome` waits for the first outcome of an attempt."""

    def __init__(self, broker: Broker) -> None:
        self._bus = MemoryBus(broker)
        self.heard: list[Message] = []
        self._news = asyncio.Condition()
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for tapped in self._bus.tap("forge.v1.evt.>"):
            async with self._news:
                self.heard.append(decode(tapped.data))
                self._news.notify_all()

    async def wait(
        self, kind: type[Message] | tuple[type[Message], ...], rollout: str = "r1", attempt: int = 1, within_s: float = 20
    ) -> Any:
        def found() -> list[Message]:
            return [m for m in self.heard if isinstance(m, kind) and getattr(m, "attempt", 0) == attempt and m.key == rollout]

        async with asyncio.timeout(within_s), self._news:
            await self._news.wait_for(found)
        return found()[0]

    async def outcome(self, rollout: str = "r1", attempt: int = 1, within_s: float = 20) -> Any:
        return await self.wait(OUTCOMES, rollout, attempt, within_s)

    async def close(self) -> None:
        await self._bus.close()
        await self._task


def orchestrator_of(config: Config, bus: MemoryBus, key: str = KEY) -> OrchestratorService:
    """An orchestrator with sandboxes of this machine."""
    return OrchestratorService(config, bus, local_site(config), Gateway(config.proxy, key))


@dataclass
class House:
    """A broker, a stand-in proxy and what orchestrators need to work with them."""

    proxy: StandIn
    root: Path
    broker: Broker
    ear: Ear

    def config(self, **settings: Any) -> Config:
        orchestrator = OrchestratorConfig(**{"sandbox": "bubblewrap", "work_root": str(self.root / "sandboxes"), **settings})
        return Config(
            run=RunConfig(id=RUN, root=str(self.root / "runs")),
            orchestrator=orchestrator,
            proxy=ProxyConfig(port=self.proxy.port, control_port=self.proxy.port),
        )

    @asynccontextmanager
    async def orchestrator(self, **settings: Any) -> AsyncIterator[OrchestratorService]:
        service = orchestrator_of(self.config(**settings), MemoryBus(self.broker))
        await service.start()
        try:
            yield service
        finally:
            await service.stop()

    async def publish(self, message: Message) -> None:
        await MemoryBus(self.broker).publish(message)

    @property
    def rollouts(self) -> Path:
        return self.root / "runs" / RUN / "rollouts"


@pytest.fixture
async def house(proxy: StandIn, tmp_path: Path) -> AsyncIterator[House]:
    isolation_of("bubblewrap")  # skips or fails where it is missing
    broker = Broker()
    ear = Ear(broker)
    yield House(proxy, tmp_path, broker, ear)
    await ear.close()


def start(task: Path, rollout: str = "r1", **fields: Any) -> RolloutStart:
    values = {"group_id": "g1", "group_size": 2, "harness": "react", "task_dir": str(task), **fields}
    return RolloutStart(run_id=RUN, rollout_id=rollout, **values)


async def until(condition: Callable[[], Any], what: str) -> None:
    """Waits for a condition that nobody announces."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it lies outside of this process
            await asyncio.sleep(0.01)
