"""How the service drives sandboxes that its twin of a backend plays: stages, retries, what vanished, what nobody wants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from services.orchestrator import reconcile, watching
from services.orchestrator.backends.port import Box, Seen, Stage
from services.orchestrator.dispatch import Dispatcher
from services.orchestrator.gateway import Endpoint
from services.orchestrator.jobs import Job
from services.orchestrator.sandbox import Isolation
from services.orchestrator.service import OrchestratorService
from services.orchestrator.site import Site
from services.orchestrator.state import Rollout, Sealed
from shared.bus.memory import Broker, MemoryBus
from shared.config import AutoConfig, Config, OrchestratorConfig, RunConfig, StagesConfig
from shared.errors import AgentMemory, AgentStorage, AgentTimeout, ImageError, OutOfMemory, SandboxError
from shared.events import (
    Message,
    RolloutCancel,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStarted,
    RolloutTimedOut,
)
from shared.roles import RoleRule
from tests.twin_backend import IMAGE, Place, Play, TwinBackend
from tests.unit.orchestrator.house import RUN, Ear, MakeTask, start, until

GOOD = Play("echo hello > out.txt")
CONTAINED = Isolation("container", True, 65534)
LEARNED = {"timeout": "auto", "auto": AutoConfig(sample=3, floor_s=0.4)}
QUICK = StagesConfig(schedule_s=0.2, pull_s=0.2, boot_s=0.2)


class NoCalls:
    """Sessions whose agents call no model. Without a proxy none of them is sealed."""

    def __init__(self, proxy_there: asyncio.Event) -> None:
        self.proxy_there = proxy_there

    async def open(self, rollout: Rollout, roles: Sequence[RoleRule] = ()) -> Endpoint:
        return Endpoint("http://127.0.0.1:9/run/k", "k")

    async def seal(self, rollout: Rollout) -> Sealed:
        await self.proxy_there.wait()
        return Sealed(0)

    async def close(self) -> None:
        pass


@dataclass
class Theatre:
    """A broker, a place with played sandboxes, and orchestrators."""

    root: Path
    broker: Broker = field(default_factory=Broker)
    plays: dict[str, Play] = field(default_factory=dict)
    proxy_there: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.proxy_there.set()
        self.ear = Ear(self.broker)
        self.place = Place(self._play)

    def _play(self, box: Box) -> Play:
        return self.plays.get(box.name, GOOD)

    def service(self, *, orphaned: bool = False, **settings: Any) -> OrchestratorService:
        config = Config(run=RunConfig(id=RUN, root=str(self.root)), orchestrator=OrchestratorConfig(**settings))
        site = Site(TwinBackend(self.place), lambda session: (CONTAINED, Path("/")))
        return OrchestratorService(config, MemoryBus(self.broker), site, NoCalls(self.proxy_there), lambda: orphaned)

    @asynccontextmanager
    async def orchestrator(self, **settings: Any) -> AsyncIterator[OrchestratorService]:
        service = self.service(**settings)
        await service.start()
        yield service
        await service.stop()

    async def ask(self, task: Path, rollout: str = "r1", **fields: Any) -> None:
        await MemoryBus(self.broker).publish(start(task, rollout, **fields))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Theatre]:
    made = Theatre(tmp_path / "runs")
    yield made
    await made.place.close()
    await made.ear.close()


@pytest.mark.parametrize(
    ("stuck", "reason"), [("schedule", "ScheduleTimeout"), ("pull", "PullTimeout"), ("boot", "BootTimeout")]
)
async def test_a_stage_that_takes_too_long_is_told_by_its_name_and_tried_again(
    stage: Theatre, make_task: MakeTask, stuck: Stage, reason: str
) -> None:
    stage.plays["r1-a1"] = Play(before=((stuck, 600.0),))
    async with stage.orchestrator(stages=QUICK):
        await stage.ask(make_task())
        first, second = await stage.ear.outcome(attempt=1), await stage.ear.outcome(attempt=2)
    assert (first.reason, first.stage, first.final) == (reason, stuck, False)
    assert isinstance(second, RolloutFinished)
    assert second.reward == 1.0


async def test_a_backend_that_cannot_be_had_is_closed_again_so_that_its_refusal_is_the_last_word(
    stage: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[TwinBackend] = []

    async def refuse(self: TwinBackend) -> None:
        raise SandboxError("there is none")

    async def close(self: TwinBackend) -> None:
        closed.append(self)

    monkeypatch.setattr(TwinBackend, "open", refuse)
    monkeypatch.setattr(TwinBackend, "close", close)
    with pytest.raises(SandboxError, match="there is none"):
        await stage.service().start()
    assert len(closed) == 1


async def test_an_outcome_names_the_image_that_the_agents_sandbox_ran(stage: Theatre, make_task: MakeTask) -> None:
    async with stage.orchestrator():
        await stage.ask(make_task())
        assert (await stage.ear.outcome()).image == IMAGE


async def test_outcomes_say_how_long_each_stage_took(stage: Theatre, make_task: MakeTask) -> None:
    stage.plays["r1-a1"] = Play("sleep 0.1", before=(("schedule", 0.05), ("pull", 0.1), ("boot", 0.05)))
    async with stage.orchestrator():
        await stage.ask(make_task())
        took = (await stage.ear.outcome()).durations
    assert 0.05 <= took.schedule_s < 0.1 <= took.pull_s < 0.5
    assert took.boot_s >= 0.05
    assert took.agent_s >= 0.1


@pytest.mark.parametrize("error", [ImageError("no such image"), OutOfMemory("killed")])
async def test_an_infrastructure_failure_is_tried_twice_again_and_never_scores(
    stage: Theatre, make_task: MakeTask, error: Exception
) -> None:
    for n in (1, 2, 3):
        stage.plays[f"r1-a{n}"] = Play(error=error)  # type: ignore[arg-type]
    async with stage.orchestrator():
        await stage.ask(make_task())
        outcomes = [await stage.ear.outcome(attempt=n) for n in (1, 2, 3)]
    assert [(type(o), o.reason, o.final) for o in outcomes] == [
        (RolloutFailed, type(error).__name__, final) for final in (False, False, True)
    ]
    assert stage.place.all() == []


async def test_a_policy_timeout_is_verified_and_no_failure(stage: Theatre, make_task: MakeTask) -> None:
    stage.plays["r1-a1"] = Play("echo hello > out.txt; sleep 600")
    async with stage.orchestrator():
        await stage.ask(make_task(), timeout_s=0.2)
        outcome = await stage.ear.outcome()
    assert isinstance(outcome, RolloutTimedOut)
    assert (outcome.reason, outcome.reward, outcome.stage) == ("AgentTimeout", 1.0, "agent")


@pytest.mark.parametrize("error", [AgentMemory("killed"), AgentStorage("put out")])
async def test_a_sandbox_that_its_agent_took_down_is_the_policys_doing_and_not_tried_again(
    stage: Theatre, make_task: MakeTask, error: AgentTimeout
) -> None:
    stage.plays["r1-a1"] = Play(before=(("run", 0.1),), error=error)
    async with stage.orchestrator():
        await stage.ask(make_task())
        outcome = await stage.ear.outcome()
        await until(lambda: stage.place.all() == [], "the sandbox to be cleared away")
    assert isinstance(outcome, RolloutTimedOut)
    assert (outcome.reason, outcome.reward, outcome.stage, outcome.attempt) == (type(error).__name__, None, "agent", 1)
    assert outcome.agent_s >= 0.1
    assert stage.place.started == ["r1-a1"]


async def test_a_sandbox_that_was_cancelled_before_its_agent_took_it_down_is_cancelled(
    stage: Theatre, make_task: MakeTask
) -> None:
    stage.plays["r1-a1"] = Play(before=(("run", 0.3),), error=AgentMemory("killed"))
    async with stage.orchestrator():
        await stage.ask(make_task())
        await until(lambda: stage.place.started == ["r1-a1"], "the sandbox")
        await MemoryBus(stage.broker).publish(RolloutCancel(run_id=RUN, rollout_id="r1", group_id="g1"))
        assert (await stage.ear.outcome()).reason == "Cancelled"


async def test_a_hung_agent_is_ended_early_once_others_of_its_family_have_ended(stage: Theatre, make_task: MakeTask) -> None:
    tasks = [make_task(f"count-{n}") for n in range(5)]
    stage.plays["r3-a1"] = Play("echo hello > out.txt; sleep 600")
    async with stage.orchestrator(**LEARNED):
        for n in range(3):
            await stage.ask(tasks[n], f"r{n}")
            assert isinstance(await stage.ear.outcome(f"r{n}"), RolloutFinished)
        await stage.ask(tasks[3], "r3")
        hung = await stage.ear.outcome("r3")
        stage.plays["r4-a1"] = Play("sleep 600")
        await stage.ask(tasks[4], "r4")
        later = await stage.ear.outcome("r4")
    assert isinstance(hung, RolloutTimedOut)
    assert (hung.reason, hung.limit_s, hung.reward) == ("AgentTimeout", 0.4, 1.0)
    assert later.limit_s >= 0.8  # the first one that was ended made the limit longer: it could have been too short


async def test_what_was_learned_of_agents_survives_the_orchestrator(stage: Theatre, make_task: MakeTask) -> None:
    tasks = [make_task(f"count-{n}") for n in range(4)]
    async with stage.orchestrator(**LEARNED):
        for n in range(3):
            await stage.ask(tasks[n], f"r{n}")
            await stage.ear.outcome(f"r{n}")
    stage.plays["r3-a1"] = Play("sleep 600")
    async with stage.orchestrator(**LEARNED):
        await stage.ask(tasks[3], "r3")
        assert (await stage.ear.outcome("r3")).limit_s == 0.4


@pytest.mark.parametrize(("said", "limit_s"), [({"timeout_s": 0.6}, 0.6), ({}, 0.7)], ids=["command", "task"])
async def test_a_limit_that_was_said_holds_whatever_was_learned(
    stage: Theatre, make_task: MakeTask, said: dict[str, Any], limit_s: float
) -> None:
    tasks = [make_task(f"count-{n}", toml="[agent]\ntimeout_sec = 0.7\n") for n in range(4)]
    stage.plays["r3-a1"] = Play("sleep 600")
    async with stage.orchestrator(**LEARNED):
        for n in range(3):
            await stage.ask(tasks[n], f"r{n}")
            await stage.ear.outcome(f"r{n}")
        await stage.ask(tasks[3], "r3", **said)
        assert (await stage.ear.outcome("r3")).limit_s == limit_s


async def test_a_cancelled_sandbox_is_reached_within_two_seconds(stage: Theatre, make_task: MakeTask) -> None:
    stage.plays["r1-a1"] = Play("sleep 600")
    async with stage.orchestrator():
        await stage.ask(make_task())
        await until(lambda: stage.place.started == ["r1-a1"], "the sandbox")
        before = time.monotonic()
        await MemoryBus(stage.broker).publish(RolloutCancel(run_id=RUN, rollout_id="r1", group_id="g1"))
        assert (await stage.ear.outcome()).reason == "Cancelled"
        assert time.monotonic() - before < 2
        await until(lambda: stage.place.all() == [], "the sandbox to be cleared away")


async def test_a_sandbox_that_vanished_while_nobody_looked_fails_its_attempt(stage: Theatre, make_task: MakeTask) -> None:
    stage.plays["r1-a1"] = Play("sleep 600")
    first = stage.service()
    await first.start()
    await stage.ask(make_task())
    await until(lambda: stage.place.started == ["r1-a1"], "the sandbox")
    await _kill(first)
    await stage.place.take_away("r1-a1")
    async with stage.orchestrator():
        failed, second = await stage.ear.outcome(attempt=1), await stage.ear.outcome(attempt=2)
    assert (failed.reason, second.reward) == ("SandboxError", 1.0)
    assert "vanished" in failed.detail


async def test_sandboxes_of_nobody_are_removed_but_not_when_they_cannot_be_listed(stage: Theatre, tmp_path: Path) -> None:
    spec = {"phases": [{"argv": ["sleep 600"], "timeout_s": 600.0}]}
    stage.place.plays = lambda box: Play("sleep 600")
    stage.place.make(Box("nobody-a1", {}, spec, tmp_path))  # type: ignore[arg-type]
    async with stage.orchestrator() as service:
        await until(lambda: stage.place.all() == [], "the orphan to be removed")
        stage.place.make(Box("nobody-a2", {}, spec, tmp_path))  # type: ignore[arg-type]
        stage.place.away = True
        await service._reconciler.once()
        stage.place.away = False
        assert [sandbox.box.name for sandbox in stage.place.all()] == ["nobody-a2"]
    assert stage.place.all() == [], "it was looked for again at the end"


async def test_nothing_is_remembered_of_sandboxes_that_nobody_wants_any_more(stage: Theatre, make_task: MakeTask) -> None:
    async with stage.orchestrator() as service:
        await stage.ask(make_task())
        assert isinstance(await stage.ear.outcome(), RolloutFinished)
        await until(lambda: not service._dispatcher.jobs, "the rollout to be done with")
        service._watcher.tell(Seen("r1-a1", "run"))  # a late word of it
        await service._reconciler.once()
        assert service._watcher._last == {}


async def test_a_sandbox_stays_until_its_outcome_is_published(
    stage: Theatre, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A successor would not find it, and take what it had done for lost."""
    published, gate = MemoryBus.publish, asyncio.Event()

    async def publish(self: MemoryBus, message: Message) -> None:
        if isinstance(message, RolloutFailed):
            waits.set()
            await gate.wait()
        await published(self, message)

    waits = asyncio.Event()
    monkeypatch.setattr(MemoryBus, "publish", publish)
    stage.plays["r1-a1"] = Play(error=OutOfMemory("killed"))
    async with stage.orchestrator() as service:
        await stage.ask(make_task())
        await waits.wait()
        await service._reconciler.once()
        assert [sandbox.box.name for sandbox in stage.place.all()] == ["r1-a1"]
        gate.set()
        assert isinstance(await stage.ear.outcome(attempt=2), RolloutFinished)
        await until(lambda: stage.place.all() == [], "both to be cleared away")


async def test_what_a_sandbox_printed_that_failed_is_kept(
    stage: Theatre, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def logs(self: TwinBackend, name: str) -> bytes:
        return b"--- agent ---\nout of memory\n"

    monkeypatch.setattr(TwinBackend, "logs", logs)
    stage.plays["r1-a1"] = Play(error=OutOfMemory("killed"))
    async with stage.orchestrator(attempts=1):
        await stage.ask(make_task())
        await stage.ear.outcome()
    assert (stage.root / RUN / "rollouts" / "r1-a1" / "sandbox.log").read_text() == "--- agent ---\nout of memory\n"


async def test_a_defect_in_a_backend_does_not_end_watching_nor_comparing(
    stage: Theatre, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    present, broken = TwinBackend.present, ["watch", "compare"]

    async def breaks_twice(self: TwinBackend) -> list[Seen]:
        if broken:
            raise ValueError(broken.pop())
        return await present(self)

    monkeypatch.setattr(watching, "AGAIN_S", 0.01)
    monkeypatch.setattr(reconcile, "EVERY_S", 0.01)
    monkeypatch.setattr(TwinBackend, "present", breaks_twice)
    async with stage.orchestrator() as service:
        await stage.ask(make_task())
        assert isinstance(await stage.ear.outcome(), RolloutFinished)
        assert service._reconciling is not None
        assert not service._reconciling.done()


async def test_a_rollout_cancelled_while_it_waits_for_the_rate_does_not_end_the_dispatcher(
    stage: Theatre, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its place already, and nobody has said yet that it waits."""
    task, paced, cancelled, gate = make_task(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def pace(self: Dispatcher) -> None:
        paced.set()
        await gate.wait()

    async def speak(self: Dispatcher) -> None:
        await cancelled.wait()
        await speaking(self)

    speaking = Dispatcher._speak
    monkeypatch.setattr(Dispatcher, "_pace", pace)
    monkeypatch.setattr(Dispatcher, "_speak", speak)
    async with stage.orchestrator() as service:
        service._dispatcher.add(job := Job(Rollout(start(task), "demo/task", 1)))
        service._records.accept(job.rollout)
        await paced.wait()
        service._dispatcher.cancel(job)
        cancelled.set()
        await asyncio.sleep(0.05)
        gate.set()
        assert (await stage.ear.outcome()).reason == "Cancelled"
        await stage.ask(task, "r2")
        assert isinstance(await stage.ear.outcome("r2"), RolloutFinished)


async def test_two_hundred_running_are_adopted_none_twice_and_none_left(stage: Theatre, make_task: MakeTask) -> None:
    task, names = make_task(), [f"r{n}" for n in range(200)]
    for name in names:
        stage.plays[f"{name}-a1"] = Play("sleep 2; echo hello > out.txt")
    first = stage.service(concurrency=200)
    await first.start()
    for name in names:
        await stage.ask(task, name)
    await until(lambda: len(stage.place.started) == 200, "all to run")
    await _kill(first)
    async with stage.orchestrator(concurrency=200):
        outcomes = [await stage.ear.outcome(name) for name in names]
        await until(lambda: stage.place.all() == [], "all to be cleared away")
    assert {o.reward for o in outcomes} == {1.0}
    assert sorted(stage.place.started) == sorted(f"{name}-a1" for name in names)


async def test_an_attempt_that_waited_for_room_when_its_orchestrator_was_killed_is_made_by_the_next_one(
    stage: Theatre, make_task: MakeTask
) -> None:
    stage.place.full = True
    first = stage.service()
    await first.start()
    await stage.ask(make_task())
    await until(lambda: stage.place.refused > 0, "it to be refused")
    await _kill(first)
    async with stage.orchestrator():
        await asyncio.sleep(0.2)  # long enough for sandboxes to be compared with those that there should be
        stage.place.full = False
        outcome = await stage.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    assert (outcome.attempt, outcome.reward, stage.place.started) == (1, 1.0, ["r1-a1"])


async def test_many_may_wait_without_a_task_each(stage: Theatre, make_task: MakeTask) -> None:
    task, many = make_task(), 2_000
    stage.place.plays = lambda box: Play("sleep 600")
    async with stage.orchestrator(concurrency=4):
        for n in range(many):
            await stage.ask(task, f"r{n}")
        await until(lambda: sum(isinstance(m, RolloutScheduled) for m in stage.ear.heard) == many, "all to be accepted")
        assert len(asyncio.all_tasks()) < 60
        assert len(stage.place.started) == 4


async def _kill(service: OrchestratorService) -> None:
    """As near to kill -9 as one process allows: everything stops at once, and nothing is said any more."""
    running = asyncio.current_task()
    names = ("Dispatcher", "Watcher._listen", "Reconciler", "MemoryBus")
    for task in asyncio.all_tasks():
        if task is not running and any(name in repr(task.get_coro()) for name in names) and "Ear" not in repr(task.get_coro()):
            task.cancel()
    await asyncio.sleep(0)


@pytest.mark.parametrize(("orphaned", "left"), [(True, []), (False, ["r1-a1", "r2-a1"])])
async def test_sandboxes_whose_end_cannot_be_told_stay_for_a_successor_unless_there_will_be_none(
    stage: Theatre, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch, orphaned: bool, left: list[str]
) -> None:
    monkeypatch.setattr("services.orchestrator.service.STOP_S", 0.3)
    stage.plays = {"r1-a1": Play("sleep 600"), "r2-a1": Play("sleep 600")}
    service = stage.service(orphaned=orphaned)
    await service.start()
    for rollout in ("r1", "r2"):
        await stage.ask(make_task(), rollout)
        await stage.ear.wait(RolloutStarted, rollout)
    stage.proxy_there.clear()
    await service.stop()
    assert sorted(sandbox.box.name for sandbox in stage.place.all()) == left
