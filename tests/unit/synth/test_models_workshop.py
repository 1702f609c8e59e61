"""A harness as builder: what it is asked, the check that it has, and what is taken of what it leaves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from services.synth.model import Ended, Lineage, Proposal, Trial, Verdict
from services.synth.models.answers import Answers
from services.synth.models.budget import Budget
from services.synth.models.client import Models
from services.synth.models.maker import ModelMaker
from services.synth.models.workshop.maker import HarnessMaker
from services.synth.models.workshop.order import TASK, read_built, write_order
from services.synth.sources import noting
from shared.config import EndpointConfig, ModelsConfig, SynthConfig
from shared.errors import MakerError
from shared.task import apart, folder_digest, load_task
from tests.scripted_builder import SPOILT, built, plain_base

Work = Callable[[Path], None]
PROPOSAL = Proposal(
    task_id="copy-1", domain="claw", family="copy", title="Copy word 1", brief="Copy it.", lineage=Lineage(generator="models")
)
FAILED = Verdict(gate="oracle", outcome="failed", reason="oracle-fails", detail="the solution got 0")


def good(task: Path) -> None:
    """Builds the task."""
    made = built(1)
    for file in [*made["files"], {"path": "instruction.md", "content": made["instruction"]}]:
        (task / file["path"]).parent.mkdir(parents=True, exist_ok=True)
        (task / file["path"]).write_text(file["content"])


class Workshop:
    """In the place of trials: does the work in a copy of the order's environment, and leaves it where it is taken."""

    def __init__(self, run: Path, work: Work, reward: float = 1.0) -> None:
        self.run_folder, self.work, self.reward = run, work, reward
        self.orders: list[Path] = []

    async def run(self, task_id: str, folder: Path, wanted: Sequence[Trial]) -> list[Ended]:
        """See `Trials.run`."""
        self.orders.append(folder)
        session = f"{task_id}-a1"
        left = self.run_folder / "rollouts" / session / "handover" / "0" / TASK
        shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(folder / "environment" / TASK, left)
        self.work(left)
        return [Ended(trial=wanted[0], reward=self.reward, session=session, said="I gave up")]


def maker(run: Path, trials: Workshop) -> HarnessMaker:
    about = ModelsConfig(harness="react", proposer=EndpointConfig(model="m"))
    models = Models(about, Answers(run / "answers"), Budget(0, 0), "run", {})
    return HarnessMaker(ModelMaker(SynthConfig(domains=("claw",), models=about), models, plain_base), "react", trials, run)


def check(tmp_path: Path, work: Work) -> tuple[int, str]:
    """What the builder's check says of its work."""
    order = tmp_path / "order"
    write_order(order, "x", "Build it.", plain_base(), {})
    task = order / "environment" / TASK
    work(task)
    program = str(order / "environment" / "check.py")
    done = subprocess.run([sys.executable, "-B", program, str(task)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_order_is_a_task_whose_verifier_is_handed_what_was_built_and_which_keeps_it(tmp_path: Path) -> None:
    write_order(tmp_path, "x", "Build it.", plain_base(), {"instruction.md": "as before"})
    task = load_task(tmp_path)
    where = apart(task)
    assert where is not None
    assert (task.keeps, [one.source for one in where.artifacts]) == (True, ["/app/task", "/logs/artifacts"])
    assert (tmp_path / "environment" / TASK / "environment" / "Dockerfile").is_file()
    assert (tmp_path / "environment" / TASK / "instruction.md").read_text() == "as before\n"


def test_the_check_finds_a_good_task_good(tmp_path: Path) -> None:
    assert check(tmp_path, good) == (0, "The task is as it has to be.\n")


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("tests/test.sh", SPOILT, "after nothing was done the check gives 1.0, and 0 is right"),
        ("solution/solve.sh", "true\n", "after solution/solve.sh the check gives 0.0, and 1 is right"),
        ("tests/test.sh", "echo oops\n", "oops"),
        ("instruction.md", "", "instruction.md is missing or empty"),
        ("environment/Dockerfile", "FROM other\n", "environment/Dockerfile belongs to the environment base"),
        ("environment/data.json", "{", "environment/data.json is no JSON"),
    ],
)
def test_the_check_says_what_is_wrong(tmp_path: Path, path: str, text: str, says: str) -> None:
    def work(task: Path) -> None:
        good(task)
        (task / path).write_text(text)

    code, said = check(tmp_path, work)
    assert code == 1
    assert says in said


def test_the_check_leaves_the_task_as_it_is_whatever_its_scripts_do_to_their_copies(tmp_path: Path) -> None:
    def work(task: Path) -> None:
        good(task)
        (task / "solution" / "solve.sh").write_text('sed -n 2p words.txt > out.txt\nrm -f "$APP_DIR/words.txt"\n')
        (task / "tests" / "test.sh").open("a").write('rm -rf "$TESTS_DIR"\n')

    assert check(tmp_path, work)[0] == 0
    assert (tmp_path / "order" / "environment" / TASK / "tests" / "wanted").is_file()


async def test_what_a_harness_built_is_the_task_and_the_order_stays_the_same_after_a_restart(tmp_path: Path) -> None:
    digests = set()
    for life in ("first", "second"):
        trials = Workshop(tmp_path / "run", good)
        with noting() as sources:
            await maker(tmp_path / "run", trials).build(PROPOSAL, tmp_path / life)
        assert sources.sessions == ["build-copy-1-a1"]
        digests.add((folder_digest(trials.orders[0]), folder_digest(tmp_path / life)))
    assert len(digests) == 1
    task = load_task(tmp_path / "first")
    assert (task.name, task.steps[0].instruction) == ("claw/copy-1", built(1)["instruction"] + "\n")
    assert "Copy word 1" in (trials.orders[0] / "instruction.md").read_text()


async def test_a_harness_that_gives_up_or_leaves_what_is_no_task_is_told(tmp_path: Path) -> None:
    with pytest.raises(MakerError, match=r"react built no task \(build-copy-1-a1\).*\nI gave up"):
        await maker(tmp_path, Workshop(tmp_path, good, 0.0)).build(PROPOSAL, tmp_path / "task")

    def link(task: Path) -> None:
        good(task)
        (task / "environment" / "passwd").symlink_to("/etc/hostname")

    with pytest.raises(MakerError, match="the builder left environment/passwd, which is no file"):
        read_of(tmp_path / "one", link)

    def binary(task: Path) -> None:
        good(task)
        (task / "environment" / "x").write_bytes(b"\xff\xfe")

    with pytest.raises(MakerError, match="the builder left environment/x, which is no text"):
        read_of(tmp_path / "two", binary)
    with pytest.raises(MakerError, match=r"no task: tests/test\.sh is missing"):
        read_of(tmp_path / "three", lambda task: task.mkdir())


def read_of(folder: Path, work: Work) -> None:
    work(folder)
    read_built(folder, plain_base(), 5)


async def test_a_task_is_mended_in_place_and_one_that_nobody_changed_is_not(tmp_path: Path) -> None:
    trials = Workshop(tmp_path / "run", good)
    house, folder = maker(tmp_path / "run", trials), tmp_path / "task"
    await house.build(PROPOSAL, folder)
    (folder / "tests" / "old").write_text("goes\n")

    def mend(task: Path) -> None:
        (task / "tests" / "old").unlink()
        (task / "solution" / "solve.sh").write_text("echo better\n")

    trials.work = mend
    assert await house.refine(PROPOSAL, folder, FAILED, 1)
    assert not (folder / "tests" / "old").exists()
    assert (folder / "solution" / "solve.sh").read_text() == "echo better\n"
    assert "the solution got 0" in (trials.orders[-1] / "instruction.md").read_text()
    trials.work = lambda task: None
    assert not await house.refine(PROPOSAL, folder, FAILED, 2)
