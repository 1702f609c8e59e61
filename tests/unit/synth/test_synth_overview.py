"""What is counted of a run of synth, and how it is shown."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from services.dev.synth.estimate import lines
from services.dev.synth.look import find_run, find_task, is_left
from services.dev.synth.needs import services_of
from services.dev.synth.overview import overview
from services.dev.synth.pictures import bars
from services.dev.synth.report import Report, Task, page
from services.dev.synth.show import render
from services.dev.synth.watch import SynthView
from services.synth.books import Books
from services.synth.candidate import Candidate, accepted, built, held, proposed, pruned, rejected, tried
from services.synth.model import Ended, Lineage, Proposal, Trial, Verdict
from services.synth.trials import Asked
from shared.config import (
    Config,
    EndpointConfig,
    GatesConfig,
    ModelsConfig,
    OrchestratorConfig,
    RunConfig,
    SynthConfig,
    TesterConfig,
)
from shared.errors import ConfigError
from shared.events import TaskAccepted, TaskRejected

FAILURE = Verdict(gate="null", outcome="failed", reason="null-passes", detail="<script>alert(1)</script>")


def candidate(number: int) -> Candidate:
    proposal = Proposal(
        task_id=f"t-{number}", domain="claw", family="f", title="t", brief="b", lineage=Lineage(generator="families")
    )  # fmt: skip
    return proposed(Candidate(task_id=f"n{number}", number=number, stage="asked", began=100.0), proposal)


def trial(task: str, agent: str, *rewards: float, digest: str = "aa") -> list[Asked]:
    return [
        Asked(task_id=task, digest=digest, trial=(one := Trial(agent=agent, run=n)), ended=Ended(trial=one, reward=reward))
        for n, reward in enumerate(rewards, 1)
    ]


def tasks() -> list[Candidate]:
    sound, mended, bad, hopeless, waiting, twin = (candidate(n) for n in range(6))
    return [
        accepted(tried(built(sound, "aa"), None), 160.0),
        accepted(tried(built(tried(built(mended, "bb"), FAILURE), "cc", 1), None), 220.0),
        rejected(tried(built(bad, "dd"), FAILURE), 130.0),
        rejected(tried(built(hopeless, "ee", 1), FAILURE), 130.0),
        held(built(waiting, "ff"), "all is spent"),
        pruned(twin, twin.proposal, "same-brief", "like n0", 101.0),
    ]


def found(**changes: Any) -> Any:
    trials = [*trial("t-0", "null", 0, 0), *trial("t-0", "oracle", 1, 0), *trial("t-2", "null", 1)]
    verdicts = [
        FAILURE, Verdict(gate="null", outcome="passed"), Verdict(gate="repeats", outcome="skipped"),
        *(Verdict(gate="repeats", outcome="passed") for _ in range(2)),
        Verdict(gate="repeats", outcome="failed", reason="flaky-verifier"),
        Verdict(gate="difficulty", outcome="passed", evidence={"share": 1.0}, seconds=2.0),
    ]  # fmt: skip
    return overview("r", tasks(), verdicts, trials, [0.5, 0.25], 300.0)


def test_candidates_are_counted_by_how_far_they_got_and_why_they_were_turned_down() -> None:
    o = found()
    assert (o.reached.asked, o.reached.proposed, o.reached.built, o.reached.passed, o.reached.accepted) == (6, 5, 5, 2, 2)
    assert [(t.gate, t.reason, t.tasks) for t in o.turned_down] == [
        ("null", "null-passes", ["n2", "n3"]), ("prune", "same-brief", ["n5"]),
    ]  # fmt: skip
    assert (o.quarantined, o.refined, o.held, o.under_way) == (1, 1, {"n4": "all is spent"}, 0)


def test_shares_are_of_what_was_tried_and_costs_of_what_was_accepted() -> None:
    o = found()
    assert o.null_passes == 1 / 2
    assert o.flaky == 1 / 3, "three were looked at; a trial of a task that a gate made counts for nothing"
    assert (o.usd, o.usd_per_accepted, o.calls) == (0.75, 0.375, 2)
    assert o.minutes_per_accepted == pytest.approx(200 / 60 / 2), "one waits: until now"
    assert o.difficulty == [0] * 9 + [1]
    assert o.gates == {"null": 0.0, "repeats": 0.0, "difficulty": 2.0}


def test_a_run_without_anything_is_shown_as_one() -> None:
    o = overview("r", [], [], [], [], 1.0)
    assert (o.null_passes, o.flaky, o.minutes_per_accepted) == (None, None, None)
    console = Console(record=True, width=160)
    console.print(render(o, "/accepted"))
    assert "asked for" in console.export_text()


def test_the_live_picture_tells_how_far_it_is_and_the_last_ends() -> None:
    view = SynthView("r", "/runs/r", found, 10)
    view.console = Console(record=True, width=120, force_terminal=True, file=io.StringIO())
    with view.show():
        view.on_message(TaskRejected(run_id="r", task_id="n2", gate="null", reason="null-passes"))
        view.on_message(TaskRejected(run_id="r", task_id="n2", gate="null", reason="null-passes"))
        view.on_message(TaskAccepted(run_id="r", task_id="n1", round=1))
        view.look()
        view.console.print(view.render())
    text = view.console.export_text()
    assert "5 of 10 through" in text
    assert "2 accepted" in text
    assert "n1 accepted after 1 changes" in text
    assert view._lines == ["n2 turned down by null: null-passes", "n1 accepted after 1 changes"]


def test_the_page_needs_no_other_and_shows_what_tasks_say_as_text() -> None:
    report = Report(at=0.0, overview=found(), tasks=[Task(candidate=task, known=None) for task in tasks()])
    text = page(report)
    assert not re.search(r"(src|href)=", text)
    assert "http" not in text
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert text.count("<svg") == 4


def test_bars_are_as_long_as_their_numbers_and_their_labels_are_text() -> None:
    picture = bars([("<a>", 4, "4"), ("b", 2, "2"), ("c", 0, "0")], "#123", "what it is")
    assert [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', picture)] == [360.0, 180.0, 0.0]
    assert "&lt;a&gt;" in picture
    assert bars([("a", 0.0, "0")], "#123", "x").count("<rect") == 1


def test_a_stack_has_an_engine_and_a_proxy_only_where_a_model_is_called() -> None:
    tester = SynthConfig(tester=TesterConfig(harness="react"))
    assert services_of(Config()) == ("orchestrator", "synth")
    assert services_of(Config(synth=tester)) == ("proxy", "orchestrator", "collector", "synth")
    assert "proxy" in services_of(Config(orchestrator=OrchestratorConfig(backend="docker")))


def test_a_dry_run_tells_rollouts_calls_and_money(tmp_path: Path) -> None:
    free = list(lines(Config(synth=SynthConfig(count=10))))
    assert "rollouts: 14 for a task that passes every gate at once, 340 at most" in free
    once = "\n".join(lines(Config(synth=SynthConfig(count=1, gates=GatesConfig(repeats=1)))))
    assert "rollouts: 10 for a task" in once  # as a run of such a task has them
    assert "models: none are asked, $0" in free
    builder = EndpointConfig(model="m", usd_per_mtok_in=1, usd_per_mtok_out=10, max_tokens=1000)
    paid = SynthConfig(generator="models", count=10, rounds=2, models=ModelsConfig(builder=builder, seed_tokens=2000))
    said = "\n".join(lines(Config(synth=paid)))
    assert "builder m: about 10 calls, $0.20 at most" in said
    assert "refiner m: about 20 calls, $0.40 at most" in said
    assert "judge" not in said


def test_a_run_that_trained_has_made_no_tasks(tmp_path: Path) -> None:
    (tmp_path / "r2" / "synth").mkdir(parents=True)  # of a service that was never asked
    with pytest.raises(ConfigError, match="no run under"):
        find_run(tmp_path, "")
    (tmp_path / "r1" / "synth" / "tasks").mkdir(parents=True)
    (tmp_path / "r1" / "config.json").write_text('{"run": {"id": "r1"}}')
    assert find_run(tmp_path, "").run.id == "r1"
    with pytest.raises(ConfigError, match="no run r2 under"):
        find_run(tmp_path, "r2")


@pytest.mark.parametrize("alive", [True, False])
def test_tasks_of_a_stack_that_is_gone_are_left_for_somebody_to_go_on_with(tmp_path: Path, alive: bool) -> None:
    config = Config(run=RunConfig(id="r", root=str(tmp_path)))
    (tmp_path / "r").mkdir()
    if alive:
        (tmp_path / "r" / "stack.json").write_text(json.dumps({"pid": os.getpid(), "pids": {}, "env": {}}))
    assert is_left(config, found()) is not alive
    assert not is_left(config, overview("r", [], [], [], [], 1.0))


def test_a_task_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    books = Books(Config(run=RunConfig(id="r", root=str(tmp_path))))
    with pytest.raises(ConfigError, match=r"no task 'x' in this run: .*\(none so far\)"):
        find_task(books, "x")
    for task in tasks()[:3]:
        books.save(task)
    assert find_task(books, "1").task_id == find_task(books, "t-1").task_id == "n1"
    with pytest.raises(ConfigError, match=r"by its id \(n0 to n2\)"):
        find_task(books, "7")
