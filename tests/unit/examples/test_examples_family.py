"""The task family: its split, its teacher, and the folders it is written to."""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from examples.lookup.family import FILES, KEYS, TOOLS, Split, demonstrate, make_task, split_of
from examples.lookup.write_tasks import COUNTS, TASKS, write_all, write_task
from services.orchestrator.harnesses.adapters.programs import react
from shared.task import list_tasks, load_task

seeds = st.integers(0, 2**32)
splits = st.sampled_from(["train", "heldout"])


@given(seeds, splits)
def test_a_task_belongs_to_its_split_and_can_be_answered_from_its_files(seed: int, split: Split) -> None:
    task = make_task(random.Random(seed), split)
    assert split_of(task.source, task.key) == split
    assert len(task.files) == task.hops
    lines = [line for text in task.files.values() for line in text.splitlines()]
    assert lines.count(f"- {task.answer}") == 1
    assert task.target not in FILES


@given(seeds, splits)
@settings(max_examples=25, deadline=None)
def test_every_task_is_solved_by_its_solution(seed: int, split: Split) -> None:
    task = make_task(random.Random(seed), split)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_task(folder / "task", task)
        subprocess.run([folder / "task" / "solution" / "solve.sh"], cwd=folder / "task" / "environment", check=True)
        subprocess.run(
            [folder / "task" / "tests" / "test.sh"], cwd=folder / "task" / "environment", check=True,
            env={**os.environ, "LOGS_DIR": str(folder / "logs")},
        )  # fmt: skip
        assert (folder / "logs" / "verifier" / "reward.txt").read_text() == "1\n"
        assert (folder / "task" / "environment" / f"{task.target}.txt").read_text() == task.answer + "\n"


def test_a_quarter_of_the_pairs_is_held_out() -> None:
    held_out = [(f, k) for f in FILES for k in KEYS if split_of(f, k) == "heldout"]
    assert 0.2 < len(held_out) / (len(FILES) * len(KEYS)) < 0.3
    assert {k for _, k in held_out} == set(KEYS)


def test_the_teacher_is_careless() -> None:
    rng = random.Random(0)
    shown = [demonstrate(make_task(rng, "train"), rng) for _ in range(10_000)]
    assert 0.27 < sum(d.success for d in shown) / len(shown) < 0.30


@given(seeds)
def test_a_demonstration_succeeds_only_by_writing_the_answer_to_the_target(seed: int) -> None:
    rng = random.Random(seed)
    task = make_task(rng, "train")
    shown = demonstrate(task, rng)
    commands = [c["function"]["arguments"]["command"] for m in shown.messages for c in m.get("tool_calls", [])]
    assert shown.success == (commands[-1] == f"echo {task.answer} > {task.target}.txt")
    assert shown.messages[0] == {"role": "user", "content": task.instruction}
    assert shown.messages[-1] == {"role": "assistant", "content": "done"}


def test_demonstrations_show_the_tools_that_the_harness_sends() -> None:
    assert TOOLS == react.TOOLS


def test_the_committed_folders_are_what_the_writer_writes(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert _tree(TASKS) == _tree(tmp_path)


def test_committed_tasks_are_complete_and_limited() -> None:
    for split, count in COUNTS.items():
        tasks = [load_task(folder) for folder in list_tasks(TASKS / split)]
        assert len(tasks) == count
        for task in tasks:
            assert task.name == f"lookup/{task.folder.name}"
            assert (task.agent.timeout_sec, task.verifier.timeout_sec) == (300, 10)
            assert task.metadata["max_turns"] == 4
            assert task.metadata["hops"] == len(list(task.environment_dir.glob("*.txt")))


def test_committed_held_out_tasks_share_no_pair_with_training() -> None:
    train, heldout = _pairs("train"), _pairs("heldout")
    assert not train & heldout
    assert len(train) > 50
    assert len(heldout) > 15


def _pairs(split: str) -> set[tuple[str, str]]:
    found = set()
    for folder in list_tasks(TASKS / split):
        match = re.fullmatch(r"Find (\w+) in (\w+)\.txt and write it to \w+\.txt\n", (folder / "instruction.md").read_text())
        assert match, folder
        found.add((match[2], match[1]))
    return found


def _tree(root: Path) -> dict[str, tuple[bool, bytes]]:
    """Every file below `root`: whether it may be executed, and its bytes."""
    files = (p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): (os.access(p, os.X_OK), p.read_bytes()) for p in files}
