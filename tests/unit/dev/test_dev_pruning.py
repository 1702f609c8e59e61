"""Which runs `openforge runs prune` takes, and that it takes all of them."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from services.cli import app
from services.dev.pruning.choose import QUIET_S, Found, Rule, chosen, is_alive
from services.dev.pruning.folders import find, measure, remove, remove_rest
from services.dev.stack import Running
from shared.config import Config, OrchestratorConfig, RunConfig
from shared.errors import ConfigError

NOW = 1_000_000.0
DAY = 86400.0
FOUNDS = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 1_000_000), st.booleans()), max_size=8).map(
    lambda given: [Found(f"r{n}", size, float(written), lives) for n, (size, written, lives) in enumerate(given)]
)
RULES = st.builds(Rule, st.none() | st.integers(0, 1_000_000).map(float), st.integers(0, 9), st.none() | st.integers(0, 400))


def runs(*ages: float, size: int = 10) -> list[Found]:
    return [Found(f"r{n}", size, NOW - age * DAY) for n, age in enumerate(ages)]


def test_old_runs_go_the_oldest_first() -> None:
    assert list(chosen(runs(1, 40, 35, 20), Rule(older_s=30 * DAY), NOW)) == ["r1", "r2"]


def test_the_newest_stay_whatever_else_is_said() -> None:
    found = runs(50, 40, 35)
    assert list(chosen(found, Rule(keep=2), NOW)) == ["r0"]
    assert list(chosen(found, Rule(older_s=30 * DAY, keep=2), NOW)) == ["r0"]
    assert list(chosen(found, Rule(max_bytes=0, keep=1), NOW)) == ["r0", "r1"]
    assert list(chosen(found, Rule(keep=0), NOW)) == ["r0", "r1", "r2"]


def test_the_oldest_go_until_little_enough_is_left() -> None:
    assert list(chosen(runs(1, 4, 3, 2), Rule(max_bytes=25), NOW)) == ["r1", "r2"]


@given(FOUNDS, RULES)
def test_no_run_that_lives_goes_and_the_newest_stay(found: list[Found], rule: Rule) -> None:
    gone, oldest_first = chosen(found, rule, NOW), sorted(found, key=lambda run: (run.written, run.run_id))
    assert not any(run.run_id in gone for run in found if is_alive(run, NOW))
    assert not any(run.run_id in gone for run in oldest_first[::-1][: rule.keep])
    free = [run for run in oldest_first[::-1][rule.keep or 0 :] if not is_alive(run, NOW)]
    left = sum(run.size for run in found if run.run_id not in gone)
    assert rule.max_bytes is None or left <= rule.max_bytes or len(gone) == len(free)


def test_what_was_written_to_just_now_lives() -> None:
    quiet, busy = Found("q", 1, NOW - QUIET_S - 1), Found("b", 1, NOW - QUIET_S + 1)
    assert list(chosen([quiet, busy], Rule(keep=0), NOW)) == ["q"]


def test_nothing_is_guessed() -> None:
    with pytest.raises(ConfigError, match="--older-than 30d"):
        Rule()


def make_run(root: Path, name: str, age_s: float, size: int = 50_000) -> Path:
    folder = root / name
    (folder / "archive").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "archive" / "a.gz").write_bytes(os.urandom(size))
    os.link(folder / "archive" / "a.gz", folder / "again.gz")
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (time.time() - age_s,) * 2)
    return folder


def prune(root: Path, *args: str) -> tuple[int, list[dict[str, object]], str]:
    done = CliRunner().invoke(app, ["runs", "prune", "--root", str(root), "--json", *args])
    return done.exit_code, json.loads(done.stdout) if done.stdout.strip() else [], done.output


def test_nothing_is_removed_unless_that_is_asked_for(tmp_path: Path) -> None:
    old, new = make_run(tmp_path, "old", 40 * DAY), make_run(tmp_path, "new", 2 * DAY)
    code, lines, _ = prune(tmp_path, "--older-than", "30d")
    assert (code, old.exists(), {line["run_id"]: line["reason"] for line in lines}) == (0, True, {"old": "too old", "new": ""})
    code, lines, _ = prune(tmp_path, "--older-than", "30d", "--yes")
    assert (code, old.exists(), new.exists()) == (0, False, True)
    assert {line["run_id"]: line["removed"] for line in lines} == {"old": True, "new": False}
    assert {path.name for path in tmp_path.iterdir()} <= {"new"}


def test_a_person_reads_what_is_freed(tmp_path: Path) -> None:
    make_run(tmp_path, "old", 40 * DAY, 30_000_000)
    done = CliRunner().invoke(app, ["runs", "prune", "--root", str(tmp_path), "--keep", "0"])
    assert "may go: not among the newest 0" in done.output
    assert "0.03 GB of 0.03 GB to be freed; --yes removes them" in done.output
    listed = CliRunner().invoke(app, ["runs", "--root", str(tmp_path)])
    assert "old" in listed.output


@pytest.mark.parametrize("args", [["--older-than", "soon"], []])
def test_what_cannot_be_understood_removes_nothing(tmp_path: Path, args: list[str]) -> None:
    old = make_run(tmp_path, "old", 40 * DAY)
    assert prune(tmp_path, "--yes", *args)[0] == 2
    assert prune(tmp_path / "none", "--yes", "--keep", "0")[0] == 2
    assert old.exists()


def test_a_run_whose_stack_lives_stays_however_old_its_files_are(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "lives", 40 * DAY)
    (folder / "stack.json").write_bytes(msgspec.json.encode(Running(os.getpid(), {}, {})))
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (time.time() - 40 * DAY,) * 2)
    [found] = find(tmp_path)
    assert found.runs
    assert prune(tmp_path, "--keep", "0", "--yes")[0] == 0
    assert folder.exists()


def test_a_run_that_is_resumed_while_others_are_looked_at_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(tmp_path, "r", 40 * DAY)
    found = find(tmp_path)
    monkeypatch.setattr("services.dev.pruning.prune.find", lambda root, looked: found)
    (folder / "logs").mkdir()
    (folder / "logs" / "trainer.jsonl").write_text("resumed")
    code, [line], _ = prune(tmp_path, "--keep", "0", "--yes")
    assert (code, line["removed"], folder.exists()) == (0, False, True)


@pytest.mark.parametrize("lives", [False, True])
def test_sandboxes_that_a_killed_run_left_go_with_it_unless_one_lives(tmp_path: Path, lives: bool) -> None:
    folder, left = make_run(tmp_path / "runs", "r", 40 * DAY), tmp_path / "work" / "openforge-r"
    (left / "s-a1" / "closed").mkdir(parents=True)
    (left / "s-a1" / "closed").chmod(0)
    (tmp_path / "work" / "openforge-other").mkdir()
    config = Config(run=RunConfig(id="r"), orchestrator=OrchestratorConfig(work_root=str(left.parent)))
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    (folder / "rollouts" / "s-a1").mkdir(parents=True)
    with (folder / "rollouts" / "s-a1" / "runner.log").open("w") as log:
        if lives:
            fcntl.flock(log, fcntl.LOCK_EX)
        remove(tmp_path / "runs", "r")
    assert (folder.exists(), left.exists(), (tmp_path / "work" / "openforge-other").exists()) == (False, lives, True)


def test_bytes_are_counted_once_and_links_are_not_followed(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "r", 0, 1_000_000)
    other = tmp_path / "other"
    other.mkdir()
    (other / "big").write_bytes(b"x" * 3_000_000)
    (folder / "there").symlink_to(other)
    (tmp_path / "linked").symlink_to(folder)
    size, _ = measure(folder)
    assert 1_000_000 <= size < 1_100_000
    assert [run.run_id for run in find(tmp_path)] == ["r"]
    remove(tmp_path, "r")
    assert (other / "big").exists()


def test_a_removal_that_was_interrupted_is_ended_by_the_next(tmp_path: Path) -> None:
    make_run(tmp_path, "half", 0)
    (tmp_path / ".pruned").mkdir()
    (tmp_path / "half").rename(tmp_path / ".pruned" / "half")
    assert find(tmp_path) == []
    remove_rest(tmp_path)
    assert list(tmp_path.iterdir()) == []
