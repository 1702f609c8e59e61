"""The whole service: real runners, sandboxes, agents and verifiers; the bus's twin and a stand-in for the proxy."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest

from services.orchestrator.verify import coin
from shared.bus.memory import MemoryBus
from shared.errors import SandboxError
from shared.events import (
    RolloutCancel,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStarted,
    RolloutTimedOut,
    TrajectoryDiscarded,
)
from tests.unit.orchestrator.house import KEY, RUN, House, MakeTask, commands, orchestrator_of, start, until

SOLVE = commands("echo hello > out.txt")
HANG = commands("echo hello > out.txt", "sleep 600")


def cancel(rollout: str = "r1") -> RolloutCancel:
    return RolloutCancel(run_id=RUN, rollout_id=rollout, group_id="g1")


def refuse(attempt: int, reason: str = "FidelityError") -> TrajectoryDiscarded:
    return TrajectoryDiscarded(run_id=RUN, rollout_id="r1", group_id="g1", attempt=attempt, reason=reason, detail="digest")


async def test_an_agent_that_solves_its_task_is_rewarded(house: House, make_task: MakeTask) -> None:
    house.proxy.script = SOLVE
    async with house.orchestrator():
        await house.publish(start(make_task(), sampling={"temperature": 0.5}))
        finished = await house.ear.outcome()
    assert isinstance(finished, RolloutFinished), finished
    assert (finished.reward, finished.exit_code, finished.task, finished.group_size) == (1.0, 0, "demo/task", 2)
    assert [type(m) for m in house.ear.heard] == [RolloutScheduled, RolloutStarted, RolloutFinished]
    assert house.proxy.sealed == ["r1-a1"]
    assert house.proxy.opened["r1-a1"] == {
        "rollout_id": "r1", "attempt": 1, "group_id": "g1", "purpose": "train", "sampling": {"temperature": 0.5},
        "roles": [],
    }  # fmt: skip


async def test_an_agent_that_does_nothing_is_judged_as_well(house: House, make_task: MakeTask) -> None:
    async with house.orchestrator():
        await house.publish(start(make_task()))
        assert (await house.ear.outcome()).reward == 0.0


async def test_many_rollouts_share_the_places(house: House, make_task: MakeTask) -> None:
    house.proxy.script = SOLVE
    task = make_task()
    async with house.orchestrator(concurrency=3):
        for n in range(8):
            await house.publish(start(task, f"r{n}"))
        outcomes = [await house.ear.outcome(f"r{n}") for n in range(8)]
    assert [o.reward for o in outcomes] == [1.0] * 8
    assert house.proxy.most_open == 3


async def test_a_command_that_comes_twice_is_carried_out_once(house: House, make_task: MakeTask) -> None:
    command = start(make_task())
    async with house.orchestrator():
        await house.publish(command)
        await house.ear.outcome()
        bus = MemoryBus(house.broker)
        await bus.publish_raw(f"forge.v1.cmd.rollout.start.{RUN}.r1", msgspec.json.encode(command), "another-id")
        await house.publish(start(make_task("other"), "r2"))
        await house.ear.outcome("r2")
    assert house.proxy.sealed == ["r1-a1", "r2-a1"]


async def test_out_of_time_is_told_with_what_was_reached(house: House, make_task: MakeTask) -> None:
    house.proxy.script = HANG
    async with house.orchestrator():
        await house.publish(start(make_task(), timeout_s=0.7))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutTimedOut), outcome
    assert (outcome.reward, outcome.limit_s) == (1.0, 0.7)


async def test_lost_records_give_a_new_attempt_and_in_the_end_a_final_failure(house: House, make_task: MakeTask) -> None:
    house.proxy.lost = {"r1-a1": [1], "r1-a2": [1]}
    async with house.orchestrator(attempts=2):
        await house.publish(start(make_task()))
        first, second = await house.ear.outcome(attempt=1), await house.ear.outcome(attempt=2)
    assert (first.reason, first.final, second.reason, second.final) == ("FidelityError", False, "FidelityError", True)
    assert house.proxy.sealed == ["r1-a1", "r1-a2"]


async def test_a_model_that_never_answers_is_an_infrastructure_failure(house: House, make_task: MakeTask) -> None:
    house.proxy.chat_status = 400
    async with house.orchestrator(attempts=1):
        await house.publish(start(make_task()))
        outcome = await house.ear.outcome()
    assert (outcome.reason, outcome.final) == ("EngineError", True)


@pytest.mark.parametrize(
    ("fields", "reason", "detail"),
    [
        ({"task_dir": "/no/such/task"}, "TaskError", "no such task folder"),
        ({"task_dir": "relative"}, "TaskError", "must be an absolute path"),
        ({"harness": "unknown"}, "HarnessError", "known: browser-use, cheat, claude"),
    ],
)
async def test_what_cannot_be_started_is_a_final_failure(
    house: House, make_task: MakeTask, fields: dict[str, str], reason: str, detail: str
) -> None:
    async with house.orchestrator():
        await house.publish(start(make_task(), **fields))
        outcome = await house.ear.outcome()
    assert (outcome.reason, outcome.final) == (reason, True)
    assert detail in outcome.detail
    assert house.proxy.opened == {}


async def test_a_failure_after_the_session_was_opened_seals_it(house: House, make_task: MakeTask) -> None:
    async with house.orchestrator():
        await house.publish(start(make_task(toml="[environment]\nenv = { A = '${NOT_SET_ANYWHERE}' }\n")))
        outcome = await house.ear.outcome()
    assert (outcome.reason, outcome.final) == ("TaskError", True)
    assert house.proxy.sealed == ["r1-a1"]


async def test_a_verifier_without_a_reward_is_a_final_failure(house: House, make_task: MakeTask) -> None:
    async with house.orchestrator():
        await house.publish(start(make_task(test="true")))
        outcome = await house.ear.outcome()
    assert (outcome.reason, outcome.final) == ("VerifierError", True)


async def test_a_rollout_is_cancelled_while_it_runs(house: House, make_task: MakeTask) -> None:
    house.proxy.script = HANG
    async with house.orchestrator():
        await house.publish(start(make_task()))
        await until(lambda: house.proxy.calls.get("r1-a1", 0) == 2, "the agent to hang")
        before = time.monotonic()
        await house.publish(cancel())
        outcome = await house.ear.outcome()
    assert (outcome.reason, outcome.final) == ("Cancelled", True)
    assert time.monotonic() - before < 2.5
    assert house.proxy.sealed == ["r1-a1"]


async def test_a_rollout_is_cancelled_while_it_waits_for_a_place(house: House, make_task: MakeTask) -> None:
    house.proxy.script = HANG
    task = make_task()
    async with house.orchestrator(concurrency=1):
        await house.publish(start(task, "r1"))
        await house.ear.wait(RolloutStarted)
        await house.publish(start(task, "r2"))
        await house.ear.wait(RolloutScheduled, "r2")
        await house.publish(cancel("r2"))
        assert (await house.ear.outcome("r2")).reason == "Cancelled"
        await house.publish(cancel("r1"))
        await house.ear.outcome("r1")
    assert set(house.proxy.opened) == {"r1-a1"}


async def test_a_refused_trajectory_gives_a_new_attempt_and_then_a_final_failure(house: House, make_task: MakeTask) -> None:
    async with house.orchestrator(attempts=2):
        await house.publish(start(make_task()))
        await house.ear.outcome()
        await house.publish(refuse(1))
        await house.ear.outcome(attempt=2)
        await house.publish(refuse(2))
        failed = await house.ear.wait(RolloutFailed, attempt=2)
    assert (failed.reason, failed.final) == ("FidelityError", True)


async def test_other_refusals_are_left_alone(house: House, make_task: MakeTask) -> None:
    async with house.orchestrator():
        await house.publish(start(make_task()))
        await house.ear.outcome()
        await house.publish(refuse(1, "no_variance"))
        await house.publish(start(make_task("other"), "r2"))
        await house.ear.outcome("r2")
    assert set(house.proxy.opened) == {"r1-a1", "r2-a1"}


async def test_a_control_run_tosses_coins_for_training_rollouts_only(house: House, make_task: MakeTask) -> None:
    task = make_task()
    ids = [f"t{n}" for n in range(4)]
    async with house.orchestrator(reward="coin"):
        for rollout in ids:
            await house.publish(start(task, rollout))
        await house.publish(start(task, "e1", purpose="eval"))
        rewards = [(await house.ear.outcome(rollout)).reward for rollout in ids]
        assert (await house.ear.outcome("e1")).reward == 0.0
    assert rewards == [coin(rollout) for rollout in ids]
    assert set(rewards) == {0.0, 1.0}


async def test_the_proxy_may_be_away_for_a_while(house: House, make_task: MakeTask) -> None:
    house.proxy.control_status = [503, 503]
    async with house.orchestrator():
        await house.publish(start(make_task()))
        assert isinstance(await house.ear.outcome(), RolloutFinished)


async def test_a_wrong_control_key_is_a_final_failure(house: House, make_task: MakeTask) -> None:
    service = orchestrator_of(house.config(), MemoryBus(house.broker), "wrong")
    await service.start()
    await house.publish(start(make_task()))
    outcome = await house.ear.outcome()
    await service.stop()
    assert (outcome.reason, outcome.final) == ("ConfigError", True)
    assert "wrong key" in outcome.detail


@pytest.mark.parametrize(("keep", "kept"), [("none", set()), ("failed", {"bad-a1"}), ("all", {"good-a1", "bad-a1"})])
async def test_which_sandboxes_are_kept(house: House, make_task: MakeTask, keep: str, kept: set[str]) -> None:
    async with house.orchestrator(keep=keep):
        await house.publish(start(make_task(), "good"))
        await house.publish(start(make_task("bad", test="chmod 0 ."), "bad"))
        await house.ear.outcome("good")
        await house.ear.outcome("bad")
    root = house.root / "sandboxes" / f"openforge-{RUN}"
    assert root.exists() is bool(kept)
    assert {folder.name for folder in root.glob("*")} == kept


async def test_stopping_cancels_what_runs(house: House, make_task: MakeTask) -> None:
    house.proxy.script = HANG
    async with house.orchestrator():
        await house.publish(start(make_task()))
        await until(lambda: house.proxy.calls.get("r1-a1", 0) == 2, "the agent to hang")
    assert (await house.ear.outcome()).reason == "Cancelled"


async def test_a_folder_of_somebody_else_is_not_used(house: House) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a folder away")
    folder = house.root / "sandboxes" / f"openforge-{RUN}"
    folder.mkdir(parents=True)
    os.chown(folder, 12345, 12345)
    with pytest.raises(SandboxError, match="belongs to another user"):
        async with house.orchestrator():
            pass


# --- after a restart ---------------------------------------------------------------------------------------------------

# An orchestrator of its own process, on a bus of its own; it accepts one rollout and is killed while the agent runs.
ORCHESTRATOR = """
import asyncio, sys
import msgspec
from services.orchestrator.gateway import Gateway
from services.orchestrator.service import OrchestratorService
from services.orchestrator.site import local_site
from shared.bus.memory import MemoryBus
from shared.config import Config
from shared.events import decode

async def main():
    bus = MemoryBus()
    config = msgspec.json.decode(sys.argv[1], type=Config)
    service = OrchestratorService(config, bus, local_site(config), Gateway(config.proxy, sys.argv[2]))
    await service.start()
    for command in sys.argv[3:]:
        await bus.publish(decode(command.encode()))
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def killed_orchestrator(house: House, task: Path, *rollouts: str, **settings: int) -> None:
    """Runs an orchestrator until its agents hang in their second call, and kills it."""
    rollouts = rollouts or ("r1",)
    asked = [msgspec.json.encode(start(task, rollout, timeout_s=60)) for rollout in rollouts]
    arguments = [msgspec.json.encode(house.config(**settings)), KEY.encode(), *asked]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ORCHESTRATOR, *arguments)
    async with asyncio.timeout(90):
        while any(house.proxy.calls.get(f"{rollout}-a1", 0) < 2 for rollout in rollouts):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
    process.kill()
    await process.wait()


async def test_a_successor_takes_over_what_runs(house: House, make_task: MakeTask) -> None:
    house.proxy.script = commands("echo hello > out.txt", "sleep 1")
    await killed_orchestrator(house, make_task())
    async with house.orchestrator():
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    assert outcome.reward == 1.0
    assert house.proxy.calls == {"r1-a1": 3}


async def test_a_successor_takes_over_forty_sandboxes_and_begins_none_twice(house: House, make_task: MakeTask) -> None:
    house.proxy.script = commands("echo hello > out.txt", "sleep 15")
    rollouts = [f"r{n}" for n in range(40)]
    await killed_orchestrator(house, make_task(), *rollouts, concurrency=40)
    async with house.orchestrator(concurrency=40):
        outcomes = [await house.ear.outcome(rollout, within_s=60) for rollout in rollouts]
    assert [(type(o), o.attempt, o.reward, o.exit_code) for o in outcomes] == [(RolloutFinished, 1, 1.0, 0)] * 40
    assert house.proxy.calls == {f"{rollout}-a1": 3 for rollout in rollouts}
    assert not (house.root / "sandboxes" / f"openforge-{RUN}").exists()


async def test_a_successor_cancels_what_it_took_over(house: House, make_task: MakeTask) -> None:
    house.proxy.script = HANG
    await killed_orchestrator(house, make_task())
    async with house.orchestrator():
        await house.ear.wait(RolloutStarted)
        await house.publish(cancel())
        assert (await house.ear.outcome()).reason == "Cancelled"


async def test_a_successor_replaces_what_died(house: House, make_task: MakeTask) -> None:
    house.proxy.script = HANG
    await killed_orchestrator(house, make_task())
    status = msgspec.json.decode((house.rollouts / "r1-a1" / "status.json").read_bytes())
    os.kill(status["pid"], signal.SIGKILL)
    house.proxy.script = SOLVE
    async with house.orchestrator():
        first, second = await house.ear.outcome(attempt=1), await house.ear.outcome(attempt=2)
    assert (first.reason, first.final, second.reward) == ("SandboxError", False, 1.0)
    assert house.proxy.sealed == ["r1-a1", "r1-a2"]


async def test_a_successor_does_not_repeat_what_was_reported(house: House, make_task: MakeTask) -> None:
    async with house.orchestrator():
        await house.publish(start(make_task()))
        await house.ear.outcome()
    heard = len(house.ear.heard)
    async with house.orchestrator():
        await house.publish(refuse(1))
        await house.ear.outcome(attempt=2)
    assert [m.attempt for m in house.ear.heard[heard:] if isinstance(m, RolloutScheduled)] == [2]


async def test_a_record_that_cannot_be_read_is_left_out(
    house: House, make_task: MakeTask, caplog: pytest.LogCaptureFixture
) -> None:
    folder = house.rollouts / "broken-a1"
    folder.mkdir(parents=True)
    (folder / "start.json").write_text("{}")
    async with house.orchestrator():
        await house.publish(start(make_task()))
        await house.ear.outcome()
    assert "its rollout is left out" in caplog.text


async def test_an_unknown_rollout_cannot_be_cancelled(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async with house.orchestrator():
        await house.publish(cancel("nobody"))
        await until(lambda: "is not known here" in caplog.text, "the command to be handled")


async def test_a_rollout_id_that_cannot_be_a_session_is_a_dead_letter(house: House, make_task: MakeTask) -> None:
    command = start(make_task(), "x" * 120)
    bus = MemoryBus(house.broker)
    async with house.orchestrator():
        await bus.publish(command)
        await until(lambda: house.broker.dead, "the command to be given up")
    assert "is not 1 to 120" in (await bus.dead_letters())[0].reason
