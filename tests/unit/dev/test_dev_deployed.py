"""Processes of a stack that somebody else keeps up: what they must be told, and how its run is begun and looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.dev.deployed.settings import deployed_config
from services.dev.ends import carried_out
from shared.bus.memory import MemoryBus
from shared.errors import BusUnavailable, ConfigError, InvalidId
from shared.events import Message, RunFinished, RunStart

WHOLE = {"run.id": "r1", "bus.url": "nats://nats:4222", "store.url": "redis://redis:6379/0"}


def sets(**left_out: str) -> list[str]:
    return [f"{name}={value}" for name, value in (WHOLE | {"run.id": left_out.get("run_id", "r1")}).items()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "openforge.toml"
    written.write_text("[trainer]\nsteps = 3\n")
    return written


@pytest.mark.parametrize("name", WHOLE)
def test_what_only_whoever_deploys_can_say_has_to_be_said(file: Path, name: str) -> None:
    given = [f"{key}={value}" for key, value in WHOLE.items() if key != name]
    with pytest.raises(ConfigError, match=f"{name} is not set.*{name.upper().replace('.', '__')}"):
        deployed_config(file, given)


def test_a_run_needs_an_id_that_is_one(file: Path) -> None:
    with pytest.raises(InvalidId):
        deployed_config(file, sets(run_id="a b"))


def test_settings_come_from_file_and_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WHOLE.items():
        monkeypatch.setenv(f"OPENFORGE__{name.upper().replace('.', '__')}", value)
    config = deployed_config(file)
    assert (config.run.id, config.bus.url, config.trainer.steps) == ("r1", "nats://nats:4222", 3)


async def test_a_run_that_is_begun_twice_ends_once_for_each_who_waits() -> None:
    bus = MemoryBus()
    await bus.publish(RunFinished(run_id="r1", nonce="earlier", ok=False, error="of an earlier beginning"))

    async def trainer(message: Message) -> None:
        assert isinstance(message, RunStart)
        await bus.publish(RunFinished(run_id="r1", nonce=message.nonce, ok=True))

    await bus.consume("trainer", [RunStart], trainer, run_id="r1")
    ends = await asyncio.wait_for(asyncio.gather(carried_out(bus, "r1"), carried_out(bus, "r1")), 20)
    assert [end.ok for end in ends] == [True, True]
    assert ends[0].nonce != ends[1].nonce
    await bus.close()


class Flaky(MemoryBus):
    """A bus that is away when the end of a run is asked for the first time."""

    away = True

    async def replay(self, kind: type[Message], run_id: str, key: str, after: int) -> AsyncIterator[tuple[int, Message]]:
        if self.away:
            self.away = False
            raise BusUnavailable("it is starting again")
        async for found in super().replay(kind, run_id, key, after):
            yield found


async def test_a_bus_that_is_away_for_a_while_does_not_end_the_wait() -> None:
    bus = Flaky()

    async def trainer(message: Message) -> None:
        assert isinstance(message, RunStart)
        await bus.publish(RunFinished(run_id="r1", nonce=message.nonce, ok=True))

    await bus.consume("trainer", [RunStart], trainer, run_id="r1")
    assert (await asyncio.wait_for(carried_out(bus, "r1"), 20)).ok
    assert not bus.away
    await bus.close()
