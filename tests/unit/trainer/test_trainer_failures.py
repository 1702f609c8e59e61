"""Runs that fail end with one clear line, and leave what is known."""

from __future__ import annotations

import json
from pathlib import Path

from shared.events import RunFinished, RunStart
from tests.engine.scripted import ScriptedEngine
from tests.unit.trainer.twins import MakeWorld
from tests.waiting import until


async def test_a_run_ends_when_the_infrastructure_loses_everything(make_world: MakeWorld) -> None:
    world = await make_world(lambda start: "SandboxError", eval_episodes=0)
    end = await world.run()
    assert not end.ok
    assert "step 1: every rollout was lost: SandboxError x 20" in end.error
    assert "\n" not in end.error


async def test_a_run_ends_when_no_task_has_a_verifier_that_works(make_world: MakeWorld) -> None:
    world = await make_world(lambda start: 1.0 if start.rollout_id[-1] == "0" else "VerifierError", eval_episodes=0, steps=3)
    end = await world.run()
    assert not end.ok
    assert "the verifiers of all 4 training tasks failed 3 times or more" in end.error
    assert sorted(world.summary["tasks_quarantined"]) == ["t00", "t01", "t02", "t03"]


async def test_too_many_lost_episodes_end_the_run(make_world: MakeWorld) -> None:
    world = await make_world(lambda start: "EngineError")
    end = await world.run()
    assert "5 of 5 held-out episodes were lost: EngineError x 5" in end.error


async def test_a_probe_that_disagrees_ends_the_run_with_the_gate_closed(make_world: MakeWorld) -> None:
    world = await make_world(prepare=lambda learner: setattr(learner, "gap", 0.5))
    end = await world.run()
    assert "differ from the trainer's by up to 0.5 nats" in end.error
    await world.sessions.create("s", "secret", b"")
    assert await world.sessions.begin("secret", "p") == "hold"


async def test_calls_that_do_not_end_stop_a_push_and_the_engine_goes_on(make_world: MakeWorld) -> None:
    world = await make_world()
    await world.sessions.heartbeat("p")
    await world.sessions.create("s", "secret", b"")
    await world.sessions.begin("secret", "p")
    end = await world.run()
    assert "1 model calls are still in flight" in end.error
    assert world.rollouts.engine.weights.loaded == []
    assert not isinstance(await world.sessions.begin("secret", "p"), str)


async def test_an_engine_that_was_restarted_is_noticed(make_world: MakeWorld) -> None:
    world = await make_world(steps=1, eval_episodes=0)
    world.rollouts.restarts = True
    end = await world.run()
    assert "serves weights 'default', not version 0: it was restarted, and took calls before that was noticed" in end.error
    assert (world.summary["token_reasons"], world.summary["tokens_unaccounted"]) == ({"step_failed": 48}, 0)


async def test_groups_that_never_close_end_the_run_and_their_rollouts(make_world: MakeWorld) -> None:
    world = await make_world(step_timeout_s=0.2, eval_episodes=0)
    world.rollouts.silent = True
    end = await world.run()
    assert "groups did not close in time: s1-g00, s1-g01, s1-g02" in end.error
    await until(lambda: len(world.rollouts.cancelled) == 12)


async def test_an_engine_that_is_not_there_ends_the_run(make_world: MakeWorld, scripted_engine: ScriptedEngine) -> None:
    world = await make_world()
    await scripted_engine.stop()
    end = await world.run()
    assert "is not healthy after 0.3 s" in end.error
    assert world.summary["ok"] is False


async def test_a_bug_becomes_one_line(make_world: MakeWorld) -> None:
    world = await make_world(prepare=lambda learner: setattr(learner, "broken", True), steps=1, eval_episodes=0)
    end = await world.run()
    assert end.error.startswith("KeyError: ")
    assert end.error.endswith("the trainer's log has the traceback")
    assert "\n" not in end.error
    assert world.summary["token_reasons"] == {"step_failed": 48}
    assert world.summary["tokens_unaccounted"] == 0


async def test_a_run_is_not_begun_again_without_its_journal(make_world: MakeWorld) -> None:
    world = await make_world()
    (world.folder / "summary.json").write_text(json.dumps({"run_id": "run-1", "steps": 4}))
    end = await world.run()
    assert not end.ok
    assert "journal: not there, though the run was begun before" in end.error
    assert world.learners == []
    assert world.summary == {"run_id": "run-1", "steps": 4}


async def test_a_stopped_trainer_says_so(make_world: MakeWorld) -> None:
    world = await make_world()
    world.rollouts.silent = True
    await world.bus.publish(RunStart(run_id="run-1"))
    await until(lambda: bool(world.rollouts.starts))
    await world.service.stop()
    await until(lambda: bool(world.of(RunFinished)))
    assert world.of(RunFinished)[0].error == world.summary["error"] == "the trainer was stopped"


async def test_a_group_whose_blob_is_gone_is_dropped(make_world: MakeWorld) -> None:
    world = await make_world(steps=1, eval_episodes=0, groups=1, oversample=1.0)
    world.rollouts.blob_gone = True
    end = await world.run()
    assert end.ok
    assert world.summary["discard_reasons"] == {"FidelityError": 1}


async def test_a_configuration_that_cannot_work_ends_the_run_at_once(make_world: MakeWorld, tmp_path: Path) -> None:
    world = await make_world()
    for task in (tmp_path / "heldout").glob("*/task.toml"):
        task.unlink()
    end = await world.run()
    assert end.error.startswith("tasks.heldout: no */task.toml in")
    assert world.learners == []
