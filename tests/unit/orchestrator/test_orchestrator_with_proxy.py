"""The orchestrator against the real proxy, which records what the agents of real sandboxes ask of a scripted engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import fakeredis
import msgspec
import pytest

from services.proxy.service import ProxyService
from shared.bus.memory import MemoryBus
from shared.config import EngineConfig, ProxyConfig
from shared.events import CallRecorded, RolloutFinished, SessionSealed
from shared.store.blobs import Blobs
from shared.store.boxes import Boxes
from shared.store.sessions import Sessions
from tests.engine.scripted import ScriptedEngine
from tests.unit.orchestrator.house import KEY, RUN, House, MakeTask, orchestrator_of, start


@pytest.fixture
async def real(house: House, scripted_engine: ScriptedEngine) -> AsyncIterator[House]:
    """A house whose orchestrator works with the real proxy."""
    store = fakeredis.FakeAsyncRedis()
    config = msgspec.structs.replace(house.config(), engine=EngineConfig(url=scripted_engine.url), proxy=ProxyConfig())
    proxy = ProxyService(
        config, MemoryBus(house.broker), Sessions(store, RUN), Blobs(store, RUN), Boxes(store, RUN), control_key=KEY
    )
    await proxy.start()
    port, control_port = (int(url.rpartition(":")[2]) for url in (proxy.url, proxy.control_url))
    config = msgspec.structs.replace(config, proxy=ProxyConfig(port=port, control_port=control_port))
    orchestrator = orchestrator_of(config, MemoryBus(house.broker))
    await orchestrator.start()
    yield house
    await orchestrator.stop()
    await proxy.stop()


async def test_every_call_of_an_agent_is_recorded_and_counted(real: House, make_task: MakeTask) -> None:
    orders = "DO: echo hello > note.txt\nDO: cp note.txt out.txt\n"
    await real.publish(start(make_task(files={"instruction.md": orders})))
    outcome = await real.ear.outcome()
    sealed = await real.ear.wait(SessionSealed)
    assert isinstance(outcome, RolloutFinished), outcome
    assert outcome.reward == 1.0
    calls = [m for m in real.ear.heard if isinstance(m, CallRecorded)]
    assert [(c.session_id, c.seq) for c in calls] == [("r1-a1", 1), ("r1-a1", 2), ("r1-a1", 3)]
    assert (sealed.calls, sealed.errored, sealed.cut, sealed.lost) == (3, [], [], [])
