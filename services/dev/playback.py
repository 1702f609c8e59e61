"""`openforge playback`: what a tap recorded, on a bus of this machine, for whoever wants to look at it there."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from services.dev.keys import make_keys
from services.dev.process import ProcessSpec, end, spawn
from services.dev.recordings import Recorded, recorded
from services.dev.scratch import scratch
from services.dev.servers import free_port, nats_command, wait_port
from services.dev.signals import until_signal
from services.dev.stack import Running
from shared.bus.nats import NatsBus, connect_nats
from shared.bus.streams import is_kept
from shared.config import BusConfig, Config, RunConfig
from shared.keys import OPERATOR

_START_S = 20.0
_GRACE_S = 3.0
_SAY_S = 2.0


async def playback(file: Path, speed: float) -> int:
    """Publishes the messages of a recording on a bus of its own, and keeps that until Ctrl-C.

    Args:
        file: as `openforge tap --record` writes it.
        speed: so many times as fast as they came; 0 for as fast as can be.

    Raises:
        ConfigError: the file is no recording, or the server is not installed.
    """
    messages = list(recorded(file))
    return await until_signal(_play(messages, speed), lambda: None)


async def _play(messages: list[Recorded], speed: float) -> int:
    with scratch() as folder:
        async with _bus(folder, _run_of(messages)) as bus:
            _say(f"in another terminal: openforge tap --root {folder} --since 1d")
            left_out = await _publish(bus, messages, speed)
            _say(f"{len(messages) - left_out} messages are on the bus, {left_out} are of no stream; Ctrl-C ends it")
            await asyncio.Event().wait()
    return 0


def _run_of(messages: list[Recorded]) -> str:
    """The run whose messages they are; `*` for those of several."""
    runs = {m.subject.split(".")[-2] for m in messages if is_kept(m.subject.encode())}
    return runs.pop() if len(runs) == 1 else "*"


@asynccontextmanager
async def _bus(root: Path, run: str) -> AsyncIterator[NatsBus]:
    """A server in a folder that other commands take for a stack which runs."""
    folder, port = root / "playback", free_port()
    bus_config = BusConfig(url=f"nats://127.0.0.1:{port}", keys=str(folder / "keys"))
    config = Config(run=RunConfig(id=run, root=str(root)), bus=bus_config)
    command = nats_command(port, folder / "nats", make_keys(folder / "keys").bus, bus_config.max_payload)
    server = await spawn(ProcessSpec("nats-server", command, folder / "nats.log"))
    try:
        await wait_port(port, _START_S)
        bus = await connect_nats(bus_config, run, OPERATOR)
        try:
            (folder / "config.json").write_bytes(msgspec.json.encode(config))
            running = Running(os.getpid(), {"nats-server": server.pid}, {})
            (folder / "stack.json").write_bytes(msgspec.json.encode(running))
            yield bus
        finally:
            await bus.close()
    finally:
        await end(server, _GRACE_S)


async def _publish(bus: NatsBus, messages: list[Recorded], speed: float) -> int:
    """How many were left out, since no stream takes their subjects."""
    began, said, left_out = time.monotonic(), time.monotonic(), 0
    for number, message in enumerate(messages):
        if speed:
            await asyncio.sleep((message.at - messages[0].at) / speed - (time.monotonic() - began))
        if is_kept(message.subject.encode()):
            await bus.publish_raw(message.subject, message.body, f"playback/{number}")
        else:
            left_out += 1
        if time.monotonic() - said > _SAY_S:
            said = time.monotonic()
            _say(f"{number + 1} of {len(messages)}")
    return left_out


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
