"""Evaluations in the course of a run: when, of what, and what is left of them."""

from __future__ import annotations

import msgspec

from services.trainer.evaluation.report import Report
from shared.events import RolloutStart, RunEvaluated
from tests.unit.trainer.twins import MakeWorld, by_number


async def test_every_so_many_steps_the_held_out_tasks_are_tried_with_the_same_seeds(make_world: MakeWorld) -> None:
    world = await make_world(steps=5, test_freq=2)
    assert (await world.run()).ok
    assert [(e.label, e.version) for e in world.of(RunEvaluated)] == [("before", 0), ("step-2", 2), ("step-4", 4), ("after", 5)]
    assert world.summary["evaluations"] == {"before": 0.4, "step-2": 0.4, "step-4": 0.4, "after": 0.4}
    held = [s for s in world.rollouts.starts if s.purpose == "eval"]
    assert len({s.rollout_id for s in held}) == 20
    assert [s.sampling["seed"] for s in held] == [s.sampling["seed"] for s in held[:5]] * 4
    assert [m["step"] for m in world.lines if "heldout/success" in m] == [0, 2, 4, 5]


async def test_at_the_last_step_there_is_one_evaluation(make_world: MakeWorld) -> None:
    world = await make_world(steps=2, test_freq=1)
    assert (await world.run()).ok
    assert [e.label for e in world.of(RunEvaluated)] == ["before", "step-1", "after"]


async def test_metrics_of_evaluations_have_the_names_of_verl(make_world: MakeWorld) -> None:
    world = await make_world(steps=0, eval_episodes=4)  # two tasks of two tries, of which the second succeeds
    assert (await world.run()).ok
    first = world.lines[0]
    assert (first["step"], first["heldout/success"], first["heldout/episodes"], first["heldout/unscored"]) == (0, 0.5, 4, 0)
    assert first["heldout/success/low"] < 0.5 < first["heldout/success/high"]
    assert (first["val-core/t/acc/mean@2"], first["val-core/t/acc/best@2/mean"], first["val-aux/t/acc/all@2/mean"]) == (
        0.5,
        1,
        0,
    )
    assert (first["val-aux/t/reward/mean@2"], first["val-aux/num_turns/mean"]) == (0.5, 1)


async def test_each_evaluation_leaves_a_report_that_can_be_compared(make_world: MakeWorld) -> None:
    def plan(start: RolloutStart) -> float | str:
        return "EngineError" if start.rollout_id.endswith("eval-after-g001-r0") else by_number(start)

    world = await make_world(plan, steps=1, eval_episodes=20)
    assert (await world.run()).ok
    before, after = (
        msgspec.json.decode((world.folder / "evaluations" / f"{label}.json").read_bytes(), type=Report)
        for label in ("before", "after")
    )
    assert [(t.task, t.family, t.harness, t.tried, t.solved) for t in before.tasks] == [
        ("t00", "t", "react", 10, 5), ("t01", "t", "react", 10, 5),
    ]  # fmt: skip
    assert (after.unscored, after.tasks[1].tried, after.outcomes) == (1, 9, {"EngineError": 1, "finished": 19})
    assert [s.family for s in after.scores] == [""]


async def test_episodes_whose_trajectories_cannot_be_had_say_nothing(make_world: MakeWorld) -> None:
    world = await make_world(steps=1)
    world.rollouts.blob_gone = True
    end = await world.run()
    assert not end.ok
    assert "5 of 5 held-out episodes were lost" in end.error
