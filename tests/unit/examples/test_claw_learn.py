"""The tiny agent of an office: its tasks, its teacher, and what both say alike."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from examples.claw.learn.family import READ, REPLY, demonstrate, make_task, write_task
from examples.claw.learn.prepare import COUNTS, write_tasks
from examples.lookup.family import split_of
from services.synth.domains.claw.office.engine import Office
from services.synth.domains.claw.office.expect import Expect
from shared.task import list_tasks
from shared.task.lint import lint


def test_tasks_are_of_their_split_and_nothing_speaks_against_them(tmp_path: Path) -> None:
    for seed in range(20):
        assert split_of(*(lambda t: (t.channel, t.key))(make_task(random.Random(seed), "heldout"))) == "heldout"
    write_task(tmp_path / "task", make_task(random.Random(1), "train"), 1)
    task, found = lint(tmp_path / "task", "local", "none")
    assert task is not None
    assert found == []
    assert task.instruction.startswith("Reply to mail m")


def test_the_folders_of_both_splits_are_made_alike(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    assert {split: len(list_tasks(tmp_path / split)) for split in COUNTS} == COUNTS


def test_the_teacher_shows_what_the_office_shows_and_is_careless() -> None:
    rng, kinds = random.Random(3), Counter[str]()
    for _ in range(300):
        task = make_task(rng, "train")
        said = demonstrate(task, rng)
        commands = [call["function"]["arguments"]["command"] for m in said for call in m.get("tool_calls", [])]
        read = commands[0] == f"{READ} {task.channel}"
        if read:
            assert said[2]["content"].splitlines()[0].endswith(": {} {}".format(*task.table[0]))
        kinds["read" if read else "guessed"] += 1
        kinds["right" if commands[-1] == f"{REPLY} m{task.mail} {task.answer}" and read else "wrong"] += 1
    assert 80 < kinds["read"] < 160
    assert 40 < kinds["right"] < 120


def test_the_right_answer_alone_is_worth_something(tmp_path: Path) -> None:
    task = make_task(random.Random(5), "train")
    for text, worth in ((task.answer, "1\n"), ("nothing", "0\n"), (" ".join(f"{k} {n}" for k, n in task.table), "0\n")):
        office = Office(task.office)
        office.call("POST", f"/mail/m{task.mail}/reply", {}, {"text": text})
        expect = Expect(task.office, office.state, tmp_path, tmp_path / "logs")
        write_task(tmp_path / text[:3] / "task", task, 1)
        checks = (tmp_path / text[:3] / "task" / "tests" / "check.py").read_text().split("Expect.load()\n")[1]
        exec(checks, {"expect": expect})
        assert (tmp_path / "logs" / "verifier" / "reward.txt").read_text() == worth
