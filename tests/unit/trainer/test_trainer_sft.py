"""The warm start: what it reads, how fast it learns, and that its result is found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from services.trainer.ports import LearnerSettings
from services.trainer.samples import Sample
from services.trainer.sft import WarmStart, draw_batches, learning_rate
from services.trainer.sft_rows import read_rows
from shared.config import WarmStartConfig
from shared.errors import ConfigError
from tests.unit.trainer.twins import StubLearner, make_model


def parquet(file: Path, *rows: tuple[list[int], list[int]]) -> Path:
    pq.write_table(pa.table({"input_ids": [r[0] for r in rows], "loss_mask": [r[1] for r in rows]}), file)
    return file


def warm_start(tmp_path: Path, **config: object) -> WarmStart:
    rows = parquet(tmp_path / "rows.parquet", ([1, 2, 3], [0, 1, 1]), ([4, 5], [0, 1]))
    settings = msgspec.convert({"rows": str(rows), "steps": 3, "batch": 4, **config}, WarmStartConfig)
    return WarmStart(make_model(tmp_path / "m"), settings, LearnerSettings(), tmp_path / "weights")


def test_rows_become_samples_without_their_first_token(tmp_path: Path) -> None:
    file = parquet(tmp_path / "r.parquet", ([1, 2, 3], [1, 0, 1]))
    assert read_rows(file, 10, 8) == [Sample([1, 2, 3], 1, [0, 1], [0.0, 0.0])]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (([1, 2, 3], [0, 1]), "3 ids and 2 mask values"),
        (([1], [0]), "both take the same, 2 to 8"),
        (([1] * 9, [0] * 9), "both take the same, 2 to 8"),
        (([1, 10], [0, 1]), r"ids lie in 0\.\.9"),
        (([1, 2], [0, 2]), "mask values are 0 or 1"),
    ],
)
def test_malformed_rows_are_named(tmp_path: Path, row: tuple[list[int], list[int]], message: str) -> None:
    file = parquet(tmp_path / "r.parquet", ([1, 2], [0, 1]), row)
    with pytest.raises(ConfigError, match=f"row 1.*{message}"):
        read_rows(file, 10, 8)


def test_a_file_that_is_no_row_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    for file in (tmp_path / "x", tmp_path / "none"):
        with pytest.raises(ConfigError, match=r"trainer\.warm_start\.rows"):
            read_rows(file, 10, 8)
    with pytest.raises(ConfigError, match="has no rows"):
        read_rows(parquet(tmp_path / "empty"), 10, 8)


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [learning_rate(step, 300, 1.0) for step in range(1, 301)]
    assert rates.index(max(rates)) == 19
    assert rates[0] == pytest.approx(0.05)
    assert rates[-1] == pytest.approx(0.1, abs=0.01)
    assert rates[19:] == sorted(rates[19:], reverse=True)


def test_batches_go_through_all_rows_before_any_comes_again() -> None:
    rows = [Sample([i, i], 1, [1], [0.0]) for i in range(5)]
    batches = draw_batches(rows, 3, seed=0)
    drawn = [s.ids[0] for _ in range(5) for s in next(batches)]
    assert all(sorted(drawn[i : i + 5]) == list(range(5)) for i in (0, 5, 10))


@pytest.mark.parametrize("cache", ["", "cache"])
def test_the_result_is_made_once(tmp_path: Path, cache: str) -> None:
    warm = warm_start(tmp_path, cache=str(tmp_path / cache) if cache else "")
    learners: list[StubLearner] = []
    steps: list[int] = []

    def factory(model: Path, settings: LearnerSettings) -> StubLearner:
        learners.append(StubLearner(model, settings))
        return learners[-1]

    first = warm.run(factory, lambda step, loss: steps.append(step))
    assert warm.run(factory, lambda step, loss: steps.append(step)) == first
    assert first.parent == tmp_path / (cache or "weights")
    assert (len(learners), steps) == (1, [1, 2, 3])
    assert learners[0].sft == [learning_rate(s, 3, warm.config.lr) for s in (1, 2, 3)]


def test_the_result_depends_on_model_rows_and_settings(tmp_path: Path) -> None:
    warm = warm_start(tmp_path)
    names = {warm.result().name}
    names.add(replace(warm, config=msgspec.structs.replace(warm.config, steps=4)).result().name)
    names.add(replace(warm, settings=LearnerSettings(seed=1)).result().name)
    (warm.model / "config.json").write_text('{"vocab_size": 99}')
    names.add(warm.result().name)
    parquet(Path(warm.config.rows), ([1, 2], [0, 1]))
    names.add(warm.result().name)
    assert len(names) == 5


def test_an_interrupted_warm_start_leaves_no_result(tmp_path: Path) -> None:
    warm = warm_start(tmp_path)

    def stop(step: int, loss: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm.run(StubLearner, stop)
    assert not warm.result().exists()
