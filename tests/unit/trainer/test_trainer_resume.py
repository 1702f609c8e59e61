"""A run that is taken up again: nothing is learned twice, nothing is left out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from services.trainer.books.metrics_file import SUCCESS
from services.trainer.journal.checkpoints import STATE
from services.trainer.journal.resume import difference
from shared.events import RolloutStart, RunEvaluated, RunStaged, RunStart, RunStepped
from tests.unit.trainer.twins import MakeWorld, StubLearner, World, by_number, stopped
from tests.waiting import until

STEPS: dict[str, Any] = {"steps": 5, "save_freq": 2, "eval_episodes": 0}


def steps(world: World) -> list[int]:
    """The training steps that `metrics.jsonl` has."""
    return [line["step"] for line in world.lines if SUCCESS not in line]


@pytest.fixture
async def whole(make_world: MakeWorld, tmp_path: Path) -> list[str]:
    """What an undisturbed run of five steps is taught. Its folder is gone."""
    world = await make_world(**STEPS)
    assert (await world.run()).ok
    await world.service.stop()
    shutil.rmtree(tmp_path / "runs")
    return world.learners[-1].taught


@pytest.mark.parametrize("step", [1, 2, 3, 4])
async def test_a_stopped_run_is_taken_up_and_learns_what_an_undisturbed_one_learns(
    make_world: MakeWorld, whole: list[str], step: int
) -> None:
    await stopped(await make_world(**STEPS), step)
    world = await make_world(**STEPS)
    assert (await world.run()).ok
    assert world.learners[-1].taught == whole
    assert steps(world) == [1, 2, 3, 4, 5]
    summary = world.summary
    assert (summary["steps"], summary["version"], summary["groups_completed"]) == (5, 5, 15)


async def test_steps_before_the_checkpoint_are_not_learned_again(make_world: MakeWorld) -> None:
    await stopped(await make_world(**STEPS), 4)
    world = await make_world(**STEPS)
    assert (await world.run()).ok
    told = [s.detail for s in world.of(RunStaged) if s.stage == "resume"]
    assert told[0] in ("loading the checkpoint of step 2", "loading the checkpoint of step 4")
    assert len(told) <= 3
    assert {s.step for s in world.of(RunStepped)} <= {4, 5}


async def test_a_damaged_checkpoint_is_passed_over(make_world: MakeWorld, whole: list[str]) -> None:
    first = await make_world(**STEPS)
    assert (await first.run()).ok
    await first.service.stop()
    newest = first.folder / "checkpoints" / "global_step_5"
    (newest / STATE).write_bytes((newest / STATE).read_bytes()[:-1])
    world = await make_world(**STEPS)
    assert (await world.run()).ok
    assert world.learners[-1].taught == whole
    await world.service.stop()
    file = newest / "actor" / "taught"
    file.write_text("[" * file.stat().st_size)  # which only the learner notices
    second = await make_world(**STEPS)
    assert (await second.run()).ok
    assert second.learners[-1].taught == whole


async def test_a_run_that_ended_is_trained_further_when_more_steps_are_asked_for(make_world: MakeWorld) -> None:
    settings = {**STEPS, "eval_episodes": 5}
    first = await make_world(**settings)
    assert (await first.run()).ok
    await first.service.stop()
    again = await make_world(**settings)
    assert (await again.run()).ok
    assert (again.of(RunStepped)[1:], again.rollouts.starts) == ([], [])  # there is nothing to do
    await again.service.stop()
    more = await make_world(**settings | {"steps": 7})
    assert (await more.run()).ok
    assert steps(more) == [1, 2, 3, 4, 5, 6, 7]
    assert [(e.label, e.version) for e in more.of(RunEvaluated)] == [("after", 7)]
    assert len(more.learners[-1].taught) == 7
    assert (more.summary["tokens_unaccounted"], more.summary["groups_completed"]) == (0, 21)


async def test_other_settings_of_learning_are_refused(make_world: MakeWorld) -> None:
    await stopped(await make_world(**STEPS), 1)
    world = await make_world(**STEPS, optim={"lr": 0.5})
    end = await world.run()
    assert "the run began with other settings, which it keeps: trainer.optim.lr was 1e-06 and is 0.5" in end.error
    assert world.learners == []


async def test_groups_that_closed_are_not_asked_for_again_and_open_ones_are(make_world: MakeWorld) -> None:
    first = await make_world(**STEPS)
    first.rollouts.stuck = "s3-g01"
    await first.bus.publish(RunStart(run_id="run-1"))
    await until(lambda: any(s.group_id.endswith("s3-g01") for s in first.rollouts.starts))
    await first.service.stop()
    world = await make_world(**STEPS)
    assert (await world.run()).ok
    asked = {s.group_id for s in world.rollouts.starts}
    assert "run-1-s3-g01" in asked
    assert not any(f"run-1-s{step}-g0{n}" in asked for step in (1, 2) for n in range(3))


async def test_rollouts_that_were_cut_off_count_neither_against_the_step_nor_the_policy(make_world: MakeWorld) -> None:
    cut: set[str] = set()

    def plan(start: RolloutStart) -> float | str:
        if start.group_id[-5:] in ("-g000", "1-g00", "1-g01") and start.group_id not in cut | {"x"}:
            return "Cancelled"
        return by_number(start)

    world = await make_world(plan, steps=1, eval_episodes=5)
    assert (await world.run()).ok
    assert world.summary["discard_reasons"] == {"interrupted": 2}
    assert world.summary["groups_completed"] == 3
    assert world.summary["unscored_before"] == 0


@pytest.mark.parametrize("pace", [{"mode": "async", "max_staleness": 2}, {"max_staleness": 1}])
async def test_a_run_that_is_ahead_of_itself_trains_within_the_bound_and_accounts_for_all(
    make_world: MakeWorld, pace: dict[str, Any]
) -> None:
    world = await make_world(**STEPS, pace={**pace, "cancel_stale": True})
    assert (await world.run()).ok
    told = world.of(RunStepped)
    assert [s.step for s in told] == [1, 2, 3, 4, 5]
    assert all(s.metrics["staleness/max"] <= pace["max_staleness"] for s in told)
    assert any(s.metrics["staleness/max"] > 0 for s in told)
    assert all({"pace/groups_open", "pace/groups_ready"} <= s.metrics.keys() for s in told)
    details = {s.detail for s in world.of(RunStaged) if s.stage == "train" and s.detail.startswith("step 2 of 5:")}
    assert details
    assert details <= {f"step 2 of 5: {ready} of 3 groups" for ready in range(4)}
    summary = world.summary
    assert (summary["groups_completed"], summary["tokens_unaccounted"], summary["rollouts"]) == (15, 0, 60)


async def test_an_asynchronous_run_is_taken_up(make_world: MakeWorld) -> None:
    settings = STEPS | {"pace": {"mode": "async", "max_staleness": 1}}
    first = await stopped(await make_world(**settings), 3)
    world = await make_world(**settings)
    assert (await world.run()).ok
    taught = world.learners[-1].taught
    assert taught[:3] == first.learners[-1].taught[:3]
    assert (len(taught), world.summary["groups_completed"], world.summary["rollouts"]) == (5, 15, 60)
    assert steps(world) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("norm", "ok"), [(0.5, True), (0.52, True), (0.6, False), (float("nan"), False)])
async def test_a_step_that_comes_out_otherwise_is_told_and_ends_the_run_past_a_bound(
    make_world: MakeWorld, norm: float, ok: bool
) -> None:
    await stopped(await make_world(**STEPS), 3)

    def prepare(learner: StubLearner) -> None:
        learner.grad_norm = norm

    world = await make_world(prepare=prepare, **STEPS)
    end = await world.run()
    assert end.ok == ok
    if ok:
        found = [line["resume/difference"] for line in world.lines if "resume/steps" in line]
        assert found == [pytest.approx(abs(norm - 0.5))]
    else:
        assert "step 3 came out otherwise when it was learned again: actor/pg_loss 0.1, now 0.1; actor/grad_norm" in end.error
        assert "set trainer.resume.max_difference above" in end.error


def test_differences_are_relative_to_large_values_only() -> None:
    assert difference({"actor/grad_norm": 200.0, "actor/pg_loss": 0.0}, {"actor/grad_norm": 202.0}) == 0.01
    assert difference({"actor/pg_loss": 0.0}, {"actor/pg_loss": -0.25, "actor/grad_norm": 9.0}) == 0.25
    assert difference({}, {"actor/pg_loss": 1.0}) == 0
