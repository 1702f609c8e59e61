"""A learner of two processes, ranks of this machine or workers on Ray, learns what one does; one that dies ends it."""

from __future__ import annotations

import random
import re
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
Make = Callable[[ParallelConfig], "VerlLearner"]
ONE, RANKS, RAY = ParallelConfig(), ParallelConfig(ranks=2), ParallelConfig(nnodes=1, n_gpus_per_node=2, device="cpu")
BY_RAY = pytest.param(
    RAY, marks=pytest.mark.long, id="ray"
)  # Ray gives up its own start after 15 s, which a busy machine needs
DIED = {RANKS: "rank 1 ended with status -9", RAY: "Ray failed in"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.engine.tied_model import make_tied_model

    return make_tied_model(tmp_path_factory.mktemp("tied"))


@pytest.fixture
def make(model: Path) -> Iterator[Make]:
    """Makes learners. Gradient descent moves weights by the gradient itself."""
    from services.trainer.learner import VerlLearner

    made: list[VerlLearner] = []
    optim, actor = OptimConfig(optimizer="SGD", lr=0.1), ActorConfig(grad_clip=1e9, ppo_mini_batch_size=2)

    def of(parallel: ParallelConfig) -> VerlLearner:
        made.append(VerlLearner(model, LearnerSettings(actor=actor, optim=optim, parallel=parallel)))
        return made[-1]

    yield of
    for learner in made:
        learner.close()


@pytest.fixture(scope="module", autouse=True)
def no_ray_is_left() -> Iterator[None]:
    """A cluster of this machine lasts as long as the process that uses it."""
    yield
    import ray

    ray.shutdown()


def processes(words: str) -> list[psutil.Process]:
    """Processes below this one with these words in their command."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if words in " ".join(process.cmdline()):
                found.append(process)
    return found


def ended(some: Sequence[psutil.Process]) -> bool:
    """Whether processes end in time: Ray ends its own after it was asked to."""
    _, alive = psutil.wait_procs(some, 30)
    return all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


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


@pytest.mark.parametrize("parallel", [pytest.param(RANKS, id="ranks"), BY_RAY])
def test_two_learn_what_one_learns_and_go_on_from_their_checkpoint(
    make: Make, tmp_path: Path, parallel: ParallelConfig
) -> None:
    one, two = make(ONE), make(parallel)
    steps = [samples(count, count) for count in (5, 8, 3)]  # odd numbers do not divide
    probe = [s.ids for s in samples(3, 9)]
    before = one.log_probs(probe)
    assert before == [pytest.approx(row, abs=EXACT) for row in two.log_probs(probe)]
    norms = learned(one, steps)
    assert learned(two, steps[:2]) == pytest.approx(norms[:2], rel=1e-3)
    two.save_checkpoint(tmp_path / "checkpoint", 2)
    two.close()
    again = make(parallel)
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


@pytest.mark.parametrize("parallel", [pytest.param(RANKS, id="ranks"), BY_RAY])
def test_one_that_is_killed_ends_the_step_with_an_error_and_leaves_no_process(make: Make, parallel: ParallelConfig) -> None:
    learner = make(parallel)
    both = processes("ray::NodeWorker" if parallel == RAY else "spawn_main")
    assert len(both) == 2
    both[1].kill()
    began = time.monotonic()
    with pytest.raises(ForgeError, match=DIED[parallel]) as failed:
        learner.update(samples(4, 1))
    assert time.monotonic() - began < 60
    with pytest.raises(ForgeError, match=re.escape(str(failed.value))):
        learner.log_probs([[1, 2, 3]])
    assert ended(both)


def test_what_one_raises_is_told(make: Make, tmp_path: Path) -> None:
    learner = make(RANKS)
    with pytest.raises(ForgeError, match="failed in load_checkpoint"):
        learner.load_checkpoint(tmp_path / "none")


@pytest.mark.long
def test_two_with_a_reference_model_share_their_room(make: Make, model: Path) -> None:
    from services.trainer.learner import VerlLearner

    actor = ActorConfig(use_kl_loss=True)
    one, two = (VerlLearner(model, LearnerSettings(actor=actor, parallel=parallel)) for parallel in (ONE, RAY))
    for _ in range(2):
        ours, theirs = one.update(samples(4, 1)).metrics, two.update(samples(4, 1)).metrics
        assert theirs["actor/kl_loss"] == pytest.approx(ours["actor/kl_loss"], abs=EXACT)
    assert ours["actor/kl_loss"] > 0
    workers = processes("ray::NodeWorker")
    assert len(workers) == 4
    two.close()
    assert ended(workers)


@pytest.mark.long
def test_a_cluster_without_room_is_told_at_once(make: Make) -> None:
    with pytest.raises(ForgeError, match="the learner needs 40 nodes with 2 CPUs each"):
        make(ParallelConfig(nnodes=40, n_gpus_per_node=2, device="cpu"))
