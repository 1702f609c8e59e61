"""Supervised training with the real learner: from a teacher's conversations to a model, to RL, and to checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from services.trainer.journal.unpack import unpack
from services.trainer.ports import Learner, LearnerSettings
from services.trainer.sft.rows import Limits, read_rows
from services.trainer.sft.stage import FILE, SftReport, WarmStart, mean_loss
from shared.config import Config, EngineConfig, OptimConfig, WarmStartConfig
from shared.errors import ConfigError
from shared.events import Span

# Imports of torch and veRL warn; they happen inside fixtures and tests, where this applies.
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(600)]

SETTINGS = LearnerSettings(optim=OptimConfig(lr=1e-3))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.engine.tied_model import make_tied_model

    return make_tied_model(tmp_path_factory.mktemp("tied"))


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `openforge export --to sft` writes them, of a teacher who says one of two things."""
    file = tmp_path_factory.mktemp("export") / "train.jsonl"
    rows = [
        {
            "messages": [{"role": "user", "content": f"say {w} {i}"}, {"role": "assistant", "content": f"{w} {w} {i}"}],
            "tools": None, "reward": float(i % 4 > 0), "rollout_id": f"r{i}",
        }
        for i, w in enumerate(["yes", "no"] * 20)
    ]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture(scope="module")
def taught(model: Path, conversations: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = WarmStartConfig(
        rows=str(conversations.parent), min_reward=1, steps=30, batch=8, lr=1e-2, val_ratio=0.2, test_freq=10
    )
    return WarmStart(model, config, SETTINGS, tmp_path_factory.mktemp("sft")).run(make, lambda *_: None)


def make(folder: Path, settings: LearnerSettings) -> Learner:
    from services.trainer.learner import VerlLearner

    return VerlLearner(folder, settings)


def test_the_loss_on_what_was_held_back_falls(taught: Path) -> None:
    report = msgspec.json.decode((taught / FILE).read_bytes(), type=SftReport)
    assert (report.trained + report.held, report.refused) == (30, {"a reward below 1": 10})
    assert [m.step for m in report.val_loss] == [0, 10, 20, 30]
    assert report.val_loss[-1].loss < 0.5 * report.val_loss[0].loss
    assert report.loss[-1].loss < 0.5 * report.loss[0].loss


def test_the_result_is_the_model_that_was_measured_and_rl_goes_on_from_it(taught: Path, conversations: Path) -> None:
    report = msgspec.json.decode((taught / FILE).read_bytes(), type=SftReport)
    rows = read_rows(conversations, taught, Limits(320, 512), 1)
    train, held = rows.split(0.2, SETTINGS.seed)
    learner = make(taught, SETTINGS)
    assert mean_loss(learner, held) == pytest.approx(report.val_loss[-1].loss, abs=1e-5)
    batch = []
    for n, sample in enumerate(train[:2]):  # as if the model itself had said them: one rollout was right, one was wrong
        start, end = 1 + sample.mask.index(1), 1 + len(sample.mask)
        known = learner.log_probs([sample.ids])[0]
        said = [p * m for p, m in zip(known, sample.mask, strict=True)]
        batch.append(replace(sample, logprobs=said, spans=[Span(seq=1, start=start, end=end, after=0)], advantages=[0.5 - n]))
    update = learner.update(batch)
    assert max(update.logprob_gaps) < 1e-4
    assert update.metrics["actor/pg_clipfrac"] == 0
    better, worse = mean_loss(learner, train[:1]), mean_loss(learner, train[1:2])
    after = make(taught, SETTINGS)
    assert better < mean_loss(after, train[:1])
    assert worse > mean_loss(after, train[1:2])


def test_a_checkpoint_is_unpacked_to_the_very_weights(taught: Path, conversations: Path, tmp_path: Path) -> None:
    held = read_rows(conversations, taught, Limits(320, 512)).samples[:4]
    learner = make(taught, SETTINGS)
    for _ in range(3):
        learner.sft_step(held, 1e-2)
    run = tmp_path / "run-1"
    learner.save_checkpoint(run / "checkpoints" / "global_step_3" / "actor", 3)
    config = Config(engine=EngineConfig(model=str(taught)))
    (run / "config.json").write_bytes(msgspec.json.encode(config))
    folder = unpack(run, 3)
    assert mean_loss(make(folder, SETTINGS), held) == pytest.approx(mean_loss(learner, held), abs=1e-6)
    assert unpack(run, 3) == folder


def test_rows_that_do_not_fit_are_left_out_whole(model: Path, conversations: Path) -> None:
    with pytest.raises(ConfigError, match="no rows that can be learned from: 40 x longer than"):
        read_rows(conversations, model, Limits(320, 20))
