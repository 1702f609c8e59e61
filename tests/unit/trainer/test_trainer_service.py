"""Whole runs, stage by stage."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shared.config import AlgorithmConfig
from shared.events import (
    LATE,
    GroupCompleted,
    RolloutStart,
    RunEvaluated,
    RunStaged,
    RunStepped,
    TokenCounts,
    TrajectoryDiscarded,
    WeightsLoaded,
)
from tests.unit.trainer.twins import MakeWorld, by_number
from tests.waiting import until


async def test_a_run_goes_from_evaluation_through_steps_to_a_saved_model(make_world: MakeWorld) -> None:
    world = await make_world()
    end = await world.run()
    assert (end.ok, end.error) == (True, "")
    assert [(s.step, s.version) for s in world.of(RunStepped)] == [(1, 1), (2, 2)]
    learned = sorted(group for s in world.of(RunStepped) for group in s.groups)
    assert learned == [f"run-1-s{step}-g0{group}" for step in (1, 2) for group in range(3)]
    assert [w.version for w in world.of(WeightsLoaded)] == [0, 1, 2]
    assert [(e.label, e.success, e.episodes, e.version) for e in world.of(RunEvaluated)] == [
        ("before", 0.4, 5, 0), ("after", 0.4, 5, 2),
    ]  # fmt: skip
    stages = [s.stage for s in world.of(RunStaged)]
    assert list(dict.fromkeys(stages)) == ["loading", "engine", "evaluate before", "train", "evaluate after", "saving"]
    assert (world.folder / "weights" / "final" / "config.json").exists()
    assert (world.folder / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == "2"
    assert sorted(f.name for f in (world.folder / "checkpoints").glob("global_step_*")) == ["global_step_1", "global_step_2"]


async def test_the_summary_accounts_for_every_token_group_and_call(make_world: MakeWorld) -> None:
    world = await make_world()
    end = await world.run()
    summary = world.summary
    assert end.summary == summary
    assert (summary["heldout_before"], summary["heldout_after"]) == (0.4, 0.4)
    assert (summary["steps"], summary["rollouts"], summary["groups_completed"], summary["groups_discarded"]) == (2, 24, 6, 0)
    assert (summary["tokens_sampled"], summary["tokens_trained"], summary["tokens_unaccounted"]) == (96, 96, 0)
    assert (summary["calls_recorded"], summary["max_logprob_gap"]) == (24, 2e-6)
    assert (summary["seed"], summary["harness"], summary["reward"]) == (3, "react", "verifier")


async def test_metrics_have_the_names_of_verl(make_world: MakeWorld) -> None:
    world = await make_world(steps=1)
    await world.run()
    _, line, _ = [json.loads(text) for text in (world.folder / "metrics.jsonl").read_text().splitlines()]
    (step,) = world.of(RunStepped)
    assert line == {"step": 1, "at": step.at, **step.metrics}
    assert (line["critic/rewards/mean"], line["response_length/mean"], line["training/global_step"]) == (0.5, 4, 1)
    timings = {"timing_s/gen", "timing_s/update", "timing_s/push", "timing_s/step"}
    assert (line["perf/total_num_tokens"], line["perf/time_per_step"]) == (84, line["timing_s/step"])
    assert (line["rollouts/finished"], line["rows_per_rollout"]) == (12, 1)
    assert timings | {"actor/grad_norm", "actor/pg_loss", "logprob_gap/max", "critic/score/mean"} <= set(line)


async def test_every_trajectory_votes_once_with_the_group_as_baseline(make_world: MakeWorld) -> None:
    world = await make_world(steps=1, algorithm={"norm_adv_by_std_in_grpo": False})
    await world.run()
    (samples,) = world.learners[0].samples
    assert [list(s.advantages) for s in samples] == [[-0.5], [0.5]] * 6


async def test_the_settings_of_credit_reach_the_learner(make_world: MakeWorld) -> None:
    credit = {"adv_estimator": "rloo", "loss_weighting": "constant", "loss_scale_factor": 8}
    world = await make_world(steps=1, algorithm=credit)  # half of the group, against the mean of the others
    await world.run()
    (samples,) = world.learners[0].samples
    assert [a for s in samples for a in s.advantages] == pytest.approx([-2 / 3, 2 / 3] * 6)
    assert world.learners[0].settings.algorithm == msgspec.convert(credit, AlgorithmConfig)


async def test_rollouts_are_named_seeded_and_spread_over_the_tasks(make_world: MakeWorld) -> None:
    world = await make_world(steps=2)
    await world.run()
    train = [s for s in world.rollouts.starts if s.purpose == "train"]
    assert train[0].rollout_id == "run-1-s1-g00-r0"
    assert len({s.rollout_id for s in train}) == len(train) == 24
    assert len({s.sampling["seed"] for s in train}) == 24
    assert train[0].sampling == {"temperature": 1.0, "max_tokens": 512, "seed": train[0].sampling["seed"]}
    groups = list(dict.fromkeys((s.group_id, s.task_dir) for s in train))
    assert len({task for _, task in groups[:4]}) == 4  # all tasks come before any comes again
    held = [s for s in world.rollouts.starts if s.purpose == "eval"]
    before, after = held[:5], held[5:]
    assert [s.sampling for s in before] == [s.sampling for s in after]
    assert {Path(s.task_dir).name for s in before} == {"t00", "t01"}


async def test_the_gate_is_open_with_the_last_version_at_the_end(make_world: MakeWorld) -> None:
    world = await make_world(steps=1)
    await world.run()
    assert await world.sessions.replicas.newest() == 1
    assert world.rollouts.engine.weights.version == "1"
    await world.sessions.create("s", "secret", b"")
    assert not isinstance(await world.sessions.begin("secret", "p"), str)


async def test_dropped_groups_are_replaced_up_to_the_limit(make_world: MakeWorld) -> None:
    def plan(start: RolloutStart) -> float:
        return by_number(start) if start.group_id.endswith(("g00", "g04")) else 1.0

    world = await make_world(plan, steps=1, eval_episodes=0)  # 3 groups, oversample 1.5: 5 at most
    end = await world.run()
    assert end.ok
    metrics = world.of(RunStepped)[0].metrics
    assert (metrics["groups_started"], metrics["groups_completed"], metrics["groups_discarded/no_variance"]) == (5, 2, 3)
    summary = world.summary
    assert summary["discard_reasons"] == {"no_variance": 3}
    assert (summary["tokens_sampled"], summary["tokens_trained"], summary["tokens_dropped"]) == (80, 32, 48)
    assert summary["tokens_unaccounted"] == 0


async def test_a_step_without_a_usable_group_learns_nothing_and_goes_on(make_world: MakeWorld) -> None:
    world = await make_world(lambda start: 1.0, steps=2, eval_episodes=0)
    end = await world.run()
    assert end.ok
    assert [(s.version, s.metrics["training/skipped"]) for s in world.of(RunStepped)] == [(0, 1.0), (0, 1.0)]
    assert (world.summary["steps_skipped"], world.learners[0].samples) == (2, [])


async def test_groups_of_another_version_are_dropped(make_world: MakeWorld) -> None:
    world = await make_world(steps=1, eval_episodes=0)
    world.rollouts.lag = 1
    end = await world.run()
    assert end.ok
    assert world.summary["discard_reasons"] == {"stale": 5}
    assert world.summary["token_reasons"] == {"stale": 80}
    assert world.learners[0].samples == []


async def test_groups_within_the_bound_are_trained_but_say_nothing_about_the_gap(make_world: MakeWorld) -> None:
    world = await make_world(steps=2, eval_episodes=0, pace={"max_staleness": 2})
    world.rollouts.lag = 1
    end = await world.run()
    assert end.ok
    assert (world.summary["groups_completed"], world.summary["max_logprob_gap"]) == (6, None)
    first, second = (s.metrics["staleness/max"] for s in world.of(RunStepped))
    assert first == 1
    assert second in (1, 2)  # its groups were started before the first update, and closed before or after it


async def test_groups_of_weights_that_were_never_trained_are_refused(make_world: MakeWorld) -> None:
    world = await make_world(steps=1, eval_episodes=0, pace={"max_staleness": 9})
    world.rollouts.lag = -1
    await world.run()
    assert world.summary["discard_reasons"] == {"FidelityError": 5}


async def test_a_task_whose_verifier_keeps_failing_is_left_out(make_world: MakeWorld) -> None:
    def plan(start: RolloutStart) -> float | str:
        return "VerifierError" if start.task_dir.endswith("t02") and start.rollout_id[-1] != "0" else by_number(start)

    world = await make_world(plan, steps=6, eval_episodes=0, quarantine_after=3)
    assert (await world.run()).ok
    broken = {s.group_id for s in world.rollouts.starts if s.task_dir.endswith("t02")}
    assert len(broken) == 1
    assert world.summary["tasks_quarantined"] == {"t02": 3}
    assert world.of(RunStepped)[-1].metrics["tasks_quarantined"] == 1


async def test_tokens_of_calls_without_a_record_are_dropped_as_lost(make_world: MakeWorld) -> None:
    world = await make_world(steps=1, eval_episodes=0)
    world.rollouts.lost = True
    await world.run()
    summary = world.summary
    assert (summary["tokens_sampled"], summary["tokens_trained"], summary["tokens_dropped"]) == (96, 48, 48)
    assert (summary["token_reasons"], summary["tokens_unaccounted"], summary["calls_recorded"]) == ({"lost": 48}, 0, 12)


async def test_lost_episodes_do_not_count_against_the_policy(make_world: MakeWorld) -> None:
    def plan(start: RolloutStart) -> float | str:
        return "EngineError" if start.rollout_id.endswith("eval-before-g000-r0") else 1.0

    world = await make_world(plan, steps=0, eval_episodes=20)
    assert (await world.run()).ok
    assert [(e.label, e.success, e.episodes) for e in world.of(RunEvaluated)] == [("before", 1.0, 19), ("after", 1.0, 20)]
    assert (world.summary["unscored_before"], world.summary["unscored_after"]) == (1, 0)


async def test_a_warm_start_precedes_the_run(make_world: MakeWorld, tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"input_ids": [[1, 2, 3]], "loss_mask": [[0, 1, 1]]}), rows)
    warm = {"rows": str(rows), "steps": 20, "batch": 2, "lr": 0.5, "optimizer": "services.trainer.verl.muon:MuonAdamW"}
    world = await make_world(steps=1, eval_episodes=0, warm_start=warm)
    assert (await world.run()).ok
    first, second = world.learners
    assert (first.settings.optim.optimizer_impl, first.settings.optim.optimizer) == ("services.trainer.verl.muon", "MuonAdamW")
    assert first.settings.optim.lr == 0.5
    assert second.settings.optim == world.config.trainer.optim
    assert first.closed
    assert second.closed
    assert second.model.parent == world.folder / "weights"
    told = [(s.done, s.total) for s in world.of(RunStaged) if s.stage == "warm start"]
    assert told == [(0, 20), (10, 20), (20, 20)]


async def test_late_and_repeated_messages_change_nothing(make_world: MakeWorld) -> None:
    world = await make_world(steps=1, eval_episodes=0)
    stray = GroupCompleted(run_id="run-1", group_id="run-0-s1-g00")
    await world.bus.publish(stray)
    end = await world.run()
    assert end.ok
    assert world.summary["groups_completed"] == 3


async def test_tokens_that_no_record_explains_are_reported(make_world: MakeWorld) -> None:
    def plan(start: RolloutStart) -> float:
        world.rollouts.engine.generated += 1
        return by_number(start)

    world = await make_world(plan, steps=1, eval_episodes=0, settle_s=0.1)
    end = await world.run()
    assert (end.ok, end.summary["tokens_unaccounted"]) == (True, 12)
    assert end.error == "12 sampled tokens are unaccounted for; see tokens_* in summary.json"


async def test_an_attempt_that_is_complete_only_after_its_group_is_waited_for_and_accounted_for(make_world: MakeWorld) -> None:
    def plan(start: RolloutStart) -> float:
        world.rollouts.engine.generated += 1
        return by_number(start)

    async def tell() -> None:
        await until(lambda: len(world.of(RunStepped)) == 1)
        await asyncio.sleep(0.2)  # the run ends meanwhile, but for this
        tokens = TokenCounts(sampled=1, dropped=1, reasons={LATE: 1})
        for start in world.rollouts.starts:
            about = TrajectoryDiscarded(
                run_id=start.run_id, rollout_id=start.rollout_id, group_id=start.group_id, attempt=2, reason=LATE, tokens=tokens
            )  # fmt: skip
            await world.bus.publish(about)

    world = await make_world(plan, steps=1, eval_episodes=0)
    telling = asyncio.create_task(tell())
    end = await world.run()
    await telling
    assert (end.ok, end.error, end.summary["tokens_unaccounted"], end.summary["token_reasons"]) == (True, "", 0, {LATE: 12})
