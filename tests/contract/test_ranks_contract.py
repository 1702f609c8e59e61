"""A learner of two ranks learns what one rank learns, and a rank that dies ends it with an error."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from safetensors.torch import load_file

from services.trainer.batch.samples import Sample
from services.trainer.ports import LearnerSettings
from shared.config import ActorConfig, OptimConfig, ParallelConfig
from shared.errors import ForgeError
from shared.events import Span

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

pytestmark = [
    pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore"),
]  # fmt: skip

EXACT = 1e-5
Make = Callable[[int], "VerlLearner"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.engine.tied_model import make_tied_model

    return make_tied_model(tmp_path_factory.mktemp("tied"))


@pytest.fixture
def make(model: Path) -> Iterator[Make]:
    """Makes learners of so many ranks. Gradient descent moves weights by the gradient itself."""
    from services.trainer.learner import VerlLearner

    made: list[VerlLearner] = []
    optim, actor = OptimConfig(optimizer="SGD", lr=0.1), ActorConfig(grad_clip=1e9, ppo_mini_batch_size=2)

    def of(ranks: int) -> VerlLearner:
        made.append(VerlLearner(model, LearnerSettings(actor=actor, optim=optim, parallel=ParallelConfig(ranks=ranks))))
        return made[-1]

    yield of
    for learner in made:
        learner.close()


def samples(count: int, seed: int) -> list[Sample]:
    """Rows of different lengths, each a trajectory, two a group."""
    draw = random.Random(seed)
    made = []
    for n in range(count):
        length, prompt = draw.randrange(12, 60), draw.randrange(3, 8)
        mask = [1] * (length - prompt)
        made.append(Sample(
            [draw.randrange(256) for _ in range(length)], prompt, mask, [-5.0] * len(mask),
            [Span(seq=1, start=prompt, end=length, after=0)], [1.0 if n % 2 else -1.0], group=n // 2, trajectory=n,
        ))  # fmt: skip
    return made


def learned(learner: VerlLearner, steps: Sequence[Sequence[Sample]]) -> list[float]:
    return [learner.update(step).metrics["actor/grad_norm"] for step in steps]


def test_two_ranks_learn_what_one_learns_and_go_on_from_their_checkpoint(make: Make, tmp_path: Path) -> None:
    one, two = make(1), make(2)
    steps = [samples(count, count) for count in (5, 8, 3)]  # odd numbers do not divide
    probe = [s.ids for s in samples(3, 9)]
    before = one.log_probs(probe)
    assert before == [pytest.approx(row, abs=EXACT) for row in two.log_probs(probe)]
    norms = learned(one, steps)
    assert learned(two, steps[:2]) == pytest.approx(norms[:2], rel=1e-3)
    two.save_checkpoint(tmp_path / "checkpoint", 2)
    two.close()
    again = make(2)
    again.load_checkpoint(tmp_path / "checkpoint")
    assert learned(again, steps[2:]) == pytest.approx(norms[2:], rel=1e-3)
    one.export(tmp_path / "one.safetensors")
    again.export(tmp_path / "two.safetensors")
    ours, theirs = load_file(tmp_path / "one.safetensors"), load_file(tmp_path / "two.safetensors")
    assert ours.keys() == theirs.keys()
    assert max((ours[name] - theirs[name]).abs().max().item() for name in ours) < EXACT
    moved = max(abs(a - b) for x, y in zip(before, one.log_probs(probe), strict=True) for a, b in zip(x, y, strict=True))
    assert moved > 100 * EXACT  # they did learn
    loss = one.sft_step(steps[0], 1e-3)
    assert again.sft_step(steps[0], 1e-3) == pytest.approx(loss, abs=EXACT)


def test_a_rank_that_is_killed_ends_the_step_with_an_error_and_leaves_no_process(make: Make) -> None:
    learner = make(2)
    pids = [child.pid for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
    assert len(pids) == 2
    os.kill(pids[1], signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(ForgeError, match="rank 1 ended with status -9"):
        learner.update(samples(4, 1))
    assert time.monotonic() - began < 60
    with pytest.raises(ForgeError, match="rank 1 ended"):
        learner.log_probs([[1, 2, 3]])
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_what_a_rank_raises_is_told(make: Make, tmp_path: Path) -> None:
    learner = make(2)
    with pytest.raises(ForgeError, match="failed in load_checkpoint"):
        learner.load_checkpoint(tmp_path / "none")
