"""What `openforge eval` takes, how it counts, and what a comparison says."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from services.dev.evaluation.comparing import read_report
from services.dev.evaluation.drive import Wish, plan_groups
from services.dev.evaluation.evaluate import Asked, evaluate
from services.dev.evaluation.fold import Fold, Planned
from services.dev.evaluation.model import find_model, with_model
from services.dev.evaluation.table import comparison_table, report_table
from services.dev.evaluation.taskset import Known, read_tasks
from services.trainer.evaluation.compare import compare
from services.trainer.evaluation.report import Episode, Report, scores, task_scores
from shared.config import Config, EngineConfig
from shared.errors import ConfigError, ForgeError, TaskError
from shared.events import (
    GroupCompleted,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutTimedOut,
    TokenCounts,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)

TASK = Known(Path("/t"), "t-1", "t", "d")


def write_task(folder: Path, name: str, said: str = "") -> None:
    (folder / "tests").mkdir(parents=True)
    (folder / "task.toml").write_text(f'schema_version = "1.4"\n[task]\nname = "{name}"\n{said}')
    (folder / "instruction.md").write_text("Do it.")
    (folder / "tests" / "test.sh").write_text("true")


def episodes(harness: str, **tries: list[float | None]) -> list[Episode]:
    return [
        Episode(task=task, family=task[0], harness=harness, rollout_id=f"{task}-{i}", outcome="finished", reward=reward)
        for task, rewards in tries.items()
        for i, reward in enumerate(rewards)
    ]


def report(harness: str, **tries: list[float | None]) -> Report:
    tasks = task_scores(episodes(harness, **tries))
    return Report(model="m", n=max(map(len, tries.values())), tasks=tasks, scores=scores(tasks))


def shown(table: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(table)
    return out.getvalue()


def test_lost_episodes_count_nowhere_and_short_tasks_leave_the_larger_k() -> None:
    made = report("react", a1=[1, 0], a2=[1, None], b1=[0, 0], b2=[None, None])
    whole, a, b = made.scores
    assert (whole.tasks, whole.episodes, whole.solved, whole.unscored) == (3, 5, 2, 3)
    assert whole.pass_at[1].value == pytest.approx((0.5 + 1 + 0) / 3)
    assert (whole.pass_at[2].value, whole.pass_all[2].value, whole.pass_at[2].tasks) == (0.5, 0.0, 2)
    assert (a.family, a.unscored, b.family, b.unscored) == ("a", 1, "b", 2)
    assert (made.success, made.scored, made.unscored) == (0.4, 5, 3)
    assert "pass^2" in shown(report_table(made))


def test_a_set_that_was_lost_altogether_has_no_rates() -> None:
    (only,) = report("react", a=[None]).scores
    assert (only.tasks, only.pass_at, only.reward, only.unscored) == (0, {}, None, 1)
    assert "-" in shown(report_table(report("react", a=[None])))


def rollout(kind: type[Message], number: int, attempt: int = 1, **more: Any) -> Message:
    about: dict[str, Any] = {"run_id": "r", "rollout_id": f"g-r{number}", "group_id": "g"}
    about |= {"purpose": "eval", "attempt": attempt}
    if kind is TrajectoryAssembled:
        about["tokens"] = TokenCounts(sampled=7, dropped=7)
    elif kind is not TrajectoryDiscarded:
        about |= {"group_size": 5, "task": "t-1", "harness": "react"}
    return kind(**about, **more)


def test_episodes_are_what_the_collector_settled() -> None:
    fold, plan = Fold(), Planned("g", TASK, "react", tuple(f"g-r{i}" for i in range(5)))
    messages = [
        rollout(RolloutFailed, 0, reason="Evicted", final=False),
        rollout(TrajectoryDiscarded, 0, reason="Evicted"),
        rollout(RolloutFinished, 0, attempt=2, reward=1.0),
        rollout(TrajectoryAssembled, 0, attempt=2, reward=1.0, calls=3, rows=0),
        rollout(RolloutTimedOut, 1, limit_s=1.0),
        rollout(TrajectoryDiscarded, 1, reason="timed_out"),
        rollout(RolloutTimedOut, 2, limit_s=1.0, reward=1.0),
        rollout(TrajectoryAssembled, 2, reward=1.0, calls=1, rows=0),
        rollout(RolloutFailed, 3, reason="VerifierError", detail="x"),
        rollout(TrajectoryDiscarded, 3, reason="VerifierError", detail="x"),
    ]
    assert not [e for m in messages for e in fold.add(m, {"g": plan})]
    ended = fold.add(GroupCompleted(run_id="r", group_id="g", purpose="eval"), {"g": plan})
    assert [(e.outcome, e.reward, e.calls, e.attempts) for e in ended] == [
        ("finished", 1.0, 3, 2), ("timed_out", 0.0, 0, 1), ("timed_out", 1.0, 1, 1), ("VerifierError", None, 0, 1),
        ("deadline", None, 0, 0),
    ]  # fmt: skip


def test_groups_of_strangers_are_left_alone() -> None:
    assert Fold().add(GroupCompleted(run_id="r", group_id="other"), {}) == []


def test_every_try_has_an_id_of_its_own() -> None:
    groups = plan_groups(Wish([TASK, TASK], ["react", "mini"], 3), "run")
    assert len({r for g in groups for r in g.rollouts}) == 12


def test_a_comparison_pairs_tasks_and_says_what_is_not_alike() -> None:
    a = report("react", a1=[0, 0], a2=[0, 1], b1=[1, 1], gone=[1, 1])
    b = report("react", a1=[1, 1], a2=[1, 1], b1=[1, 1], new=[0, 0])
    b = replace(b, temperature=0.5, tasks=[replace(t, digest="x") for t in b.tasks])
    a = replace(a, tasks=[replace(t, digest="y") for t in a.tasks])
    found = compare(a, b)
    (line,) = found.lines
    assert (line.success.a, line.success.b, line.success.difference.value) == (0.5, 1.0, 0.5)
    assert line.success.difference.p == 0.5  # of the sign changes of .5 and 1, two of four lie as far out
    assert [note.split(": ")[0] for note in found.notes] == [
        "temperature differs", "react", "react", "react",
    ]  # fmt: skip
    assert "+0.500" in shown(comparison_table(found))


def test_one_harness_is_compared_with_another_and_nothing_in_common_is_refused() -> None:
    a, b = report("react", t=[1]), report("mini", t=[0])
    assert compare(a, b).lines[0].harness == "react / mini"
    with pytest.raises(ConfigError, match="no task in common"):
        compare(a, report("mini", u=[0]))
    both = replace(a, tasks=[*a.tasks, *report("codex", t=[1]).tasks])
    with pytest.raises(ConfigError, match="no harness is in both"):
        compare(both, b)


def test_reports_are_found_by_file_folder_and_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no evaluation there"):
        read_report(tmp_path, "r")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "eval.json").write_text('{"schema": 2}')
    with pytest.raises(ConfigError, match="not an evaluation"):
        read_report(tmp_path, "r")
    (tmp_path / "r" / "eval.json").write_text(json.dumps({"schema": 1, "label": "x"}))
    for root, name in ((tmp_path, "r"), (Path("none"), str(tmp_path / "r")), (Path("none"), str(tmp_path / "r" / "eval.json"))):
        assert read_report(root, name).label == "x"


def test_tasks_have_families_and_digests_and_names_of_their_own(tmp_path: Path) -> None:
    write_task(tmp_path / "a", "set/count-1")
    write_task(tmp_path / "b", "set/count-2", '[metadata]\nfamily = "own"\n')
    first, second = read_tasks(tmp_path)
    assert [(t.name, t.family) for t in (first, second)] == [("set/count-1", "set/count"), ("set/count-2", "own")]
    assert read_tasks(tmp_path / "a") == [first]
    (tmp_path / "a" / "instruction.md").write_text("Do something else.")
    assert read_tasks(tmp_path / "a")[0].digest != first.digest
    write_task(tmp_path / "c", "set/count-1")
    with pytest.raises(TaskError, match="several tasks are named 'set/count-1'"):
        read_tasks(tmp_path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked("", (), 1, "", False), "name their folder with --tasks"),
        (Asked("nowhere", (), 1, "", False), "nowhere: no such folder of tasks"),
        (Asked("nowhere", ("reakt",), 1, "", False), "reakt"),
    ],
)
async def test_what_cannot_be_evaluated_is_refused_before_anything_starts(asked: Asked, said: str) -> None:
    with pytest.raises(ForgeError, match=said):
        await evaluate(Config(), asked)


def test_a_model_is_a_folder_a_run_or_a_checkpoint(tmp_path: Path) -> None:
    run, model = tmp_path / "runs" / "r1", tmp_path / "model"
    for folder in (run / "weights" / "final", run / "checkpoints" / "global_step_4" / "model", model):
        folder.mkdir(parents=True)
    for file in (run / "config.json", model / "config.json"):
        file.write_text("{}")
    root = tmp_path / "runs"
    assert find_model(root, str(model)) == model
    assert find_model(root, "r1") == find_model(Path("none"), str(run)) == run / "weights" / "final"
    assert find_model(root, "r1@4") == run / "checkpoints" / "global_step_4" / "model"
    for name, said in (
        ("r2", "did you mean r1"),
        ("r1@5", "no checkpoint of step 5; there are 4"),
        ("r1@x", "a step is a number"),
    ):
        with pytest.raises(ConfigError, match=said):
            find_model(root, name)
    assert with_model(Config(), str(model)).engine.model == str(model)
    with pytest.raises(ConfigError, match="serves its own model"):
        with_model(Config(engine=EngineConfig(url="http://x")), str(model))
