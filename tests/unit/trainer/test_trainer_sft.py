"""Supervised training: what it reads, how fast it learns, what it measures, and that its result is found again."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from services.trainer.batch.samples import Sample
from services.trainer.ports import LearnerSettings
from services.trainer.sft.results import LOCK, put, save_whole
from services.trainer.sft.rows import TOO_LONG, UNTRAINED, Limits, Rows, read_rows, rows_file
from services.trainer.sft.stage import FILE, SftReport, WarmStart, draw_batches, learning_rate, mean_loss, steps_of
from shared.config import ActorConfig, OptimConfig, WarmStartConfig
from shared.errors import ConfigError
from tests.unit.trainer.twins import StubLearner, make_model

LIMITS = Limits(10, 8)


def parquet(file: Path, *rows: tuple[list[int], list[int]]) -> Path:
    pq.write_table(pa.table({"input_ids": [r[0] for r in rows], "loss_mask": [r[1] for r in rows]}), file)
    return file


def exported(file: Path, *rewards: float) -> Path:
    rows = [
        {"prompts": [1, 2], "responses": [3, 4, 5], "response_mask": [1, 0, 1], "reward": r, "rollout_id": f"r{i}"}
        for i, r in enumerate(rewards)
    ]
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file


def warm_start(tmp_path: Path, **config: object) -> WarmStart:
    rows = parquet(tmp_path / "rows.parquet", ([1, 2, 3], [0, 1, 1]), ([4, 5], [0, 1]))
    settings = msgspec.convert({"rows": str(rows), "steps": 3, "batch": 4, **config}, WarmStartConfig)
    return WarmStart(make_model(tmp_path / "m"), settings, LearnerSettings(optim=OptimConfig(lr=1.0)), tmp_path / "weights")


def silent(step: int, steps: int, text: str) -> None: ...


def test_rows_become_samples_without_their_first_token(tmp_path: Path) -> None:
    file = parquet(tmp_path / "r.parquet", ([1, 2, 3], [1, 0, 1]))
    assert read_rows(file, tmp_path, LIMITS).samples == [Sample([1, 2, 3], 1, [0, 1], [0.0, 0.0])]


def test_exported_rows_train_what_rl_trained(tmp_path: Path) -> None:
    rows = read_rows(exported(tmp_path / "train.parquet", 1.0, 0.0), tmp_path, LIMITS, min_reward=0.5)
    assert rows.samples == [Sample([1, 2, 3, 4, 5], 1, [0, 1, 0, 1], [0.0] * 4)]
    assert (rows.keys, dict(rows.refused)) == (["r0"], {"a reward below 0.5": 1})
    assert rows_file(str(tmp_path)) == tmp_path / "train.parquet"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (([1, 2, 3], [0, 1]), "3 ids and 2 mask values"),
        (([1], [0]), "both take the same, two at least"),
        (([1, 10], [0, 1]), r"ids lie in 0\.\.9"),
        (([1, 2], [0, 2]), "mask values are 0 or 1"),
    ],
)
def test_malformed_rows_are_named(tmp_path: Path, row: tuple[list[int], list[int]], message: str) -> None:
    file = parquet(tmp_path / "r.parquet", ([1, 2], [0, 1]), row)
    with pytest.raises(ConfigError, match=f"row 1.*{message}"):
        read_rows(file, tmp_path, LIMITS)


def test_rows_that_teach_nothing_or_are_too_long_are_left_out_and_counted(tmp_path: Path) -> None:
    file = parquet(tmp_path / "r.parquet", ([1, 2], [0, 1]), ([1] * 9, [0] + [1] * 8), ([1, 2], [1, 0]))
    rows = read_rows(file, tmp_path, LIMITS)
    assert (len(rows.samples), dict(rows.refused)) == (1, {TOO_LONG: 1, UNTRAINED: 1})
    with pytest.raises(ConfigError, match=f"no rows that can be learned from: 1 x {TOO_LONG}"):
        read_rows(parquet(tmp_path / "l.parquet", ([1] * 9, [1] * 9)), tmp_path, LIMITS)


def test_a_file_that_is_no_row_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "other.parquet")
    for file, said in (("x", "trainer.warm_start.rows"), ("none", "No such file"), ("other.parquet", "has neither input_ids")):
        with pytest.raises(ConfigError, match=said):
            read_rows(tmp_path / file, tmp_path, LIMITS)
    with pytest.raises(ConfigError, match="there are none"):
        read_rows(parquet(tmp_path / "empty"), tmp_path, LIMITS)
    with pytest.raises(ConfigError, match="no such file, nor a folder with"):
        rows_file(str(tmp_path / "nowhere"))


def test_rewards_that_are_asked_for_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="row 0 has no reward"):
        read_rows(parquet(tmp_path / "r.parquet", ([1, 2], [0, 1])), tmp_path, LIMITS, min_reward=0.5)


def test_the_learning_rate_rises_and_falls() -> None:
    linear = WarmStartConfig(lr=1.0)
    rates = [learning_rate(step, 300, linear) for step in range(1, 301)]
    assert rates.index(max(rates)) == 19
    assert rates[0] == pytest.approx(0.05)
    assert rates[-1] == pytest.approx(0.1, abs=0.01)
    assert rates[19:] == sorted(rates[19:], reverse=True)
    cosine = msgspec.structs.replace(linear, lr_scheduler_type="cosine", lr_warmup_steps=0)
    assert [learning_rate(s, 2, cosine) for s in (1, 2)] == pytest.approx([1.0, 0.55])
    constant = msgspec.structs.replace(linear, lr_scheduler_type="constant", lr_warmup_steps=2)
    assert [learning_rate(s, 9, constant) for s in (1, 2, 9)] == [0.5, 1.0, 1.0]


def test_batches_go_through_all_rows_before_any_comes_again() -> None:
    rows = [Sample([i, i], 1, [1], [0.0]) for i in range(5)]
    batches = draw_batches(rows, 3, seed=0)
    drawn = [s.ids[0] for _ in range(5) for s in next(batches)]
    assert all(sorted(drawn[i : i + 5]) == list(range(5)) for i in (0, 5, 10))


def test_epochs_are_counted_in_steps() -> None:
    assert [steps_of(WarmStartConfig(epochs=e, batch=32, steps=7), 100) for e in (0, 1, 2.5)] == [7, 4, 8]


def test_rows_of_one_rollout_are_held_back_together() -> None:
    rows = Rows(samples=[Sample([i, i], 1, [1], [0.0]) for i in range(400)], keys=[f"r{i // 4}" for i in range(400)])
    train, held = rows.split(0.25, seed=1)
    assert len(train) + len(held) == 400
    assert not {s.ids[0] // 4 for s in train} & {s.ids[0] // 4 for s in held}
    assert 50 <= len(held) <= 150
    assert rows.split(0.25, seed=1) == (train, held)
    assert rows.split(0.25, seed=2)[1] != held
    assert rows.split(0.0, seed=1)[1] == []


class Even(StubLearner):
    """Every token after the first has a log-prob of minus its id."""

    def log_probs(self, sequences: Any) -> list[list[float]]:
        return [[-float(i) for i in s[1:]] for s in sequences]


def test_the_held_back_loss_is_over_trained_tokens(tmp_path: Path) -> None:
    samples = [Sample([9, 1, 2, 3], 1, [1, 0, 1], [0.0] * 3), Sample([9, 5], 1, [1], [0.0])] * 40
    assert mean_loss(Even(tmp_path, LearnerSettings()), samples) == pytest.approx((1 + 3 + 5) / 3)


@pytest.mark.parametrize("cache", ["", "cache"])
def test_the_result_is_made_once(tmp_path: Path, cache: str) -> None:
    warm = warm_start(tmp_path, cache=str(tmp_path / cache) if cache else "")
    learners: list[StubLearner] = []
    steps: list[tuple[int, int]] = []

    def factory(model: Path, settings: LearnerSettings) -> StubLearner:
        learners.append(StubLearner(model, settings))
        return learners[-1]

    def note(step: int, of: int, text: str) -> None:
        steps.append((step, of))

    first = warm.run(factory, note)
    assert warm.run(factory, note) == first
    assert first.parent == tmp_path / (cache or "weights")
    assert (len(learners), steps) == (1, [(1, 3), (2, 3), (3, 3)])
    assert learners[0].sft == [learning_rate(s, 3, warm.config) for s in (1, 2, 3)]
    assert learners[0].closed


def test_the_result_says_what_it_was_made_from_and_its_losses(tmp_path: Path) -> None:
    rows = str(exported(tmp_path / "e.parquet", *[1.0] * 40, 0.0))
    warm = warm_start(tmp_path, rows=rows, val_ratio=0.3, test_freq=2, min_reward=1)
    report = msgspec.json.decode((warm.run(Even, silent) / FILE).read_bytes(), type=SftReport)
    assert (report.trained + report.held, report.refused) == (40, {"a reward below 1": 1})
    assert report.held > 0
    assert report.tokens == 2 * report.trained
    assert [m.step for m in report.val_loss] == [0, 2, 3]
    assert [(m.step, m.loss) for m in report.loss] == [(1, 1.0), (2, 1.0), (3, 1.0)]
    assert {m.loss for m in report.val_loss} == {4.0}


def test_a_split_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"val_ratio = 0\.01 leaves 2 rows to learn from and 0"):
        warm_start(tmp_path, val_ratio=0.01).run(StubLearner, silent)


def test_the_result_depends_on_model_rows_and_settings(tmp_path: Path) -> None:
    warm = warm_start(tmp_path)
    names = {warm.result().name}
    names.add(replace(warm, config=msgspec.structs.replace(warm.config, steps=4)).result().name)
    names.add(replace(warm, config=msgspec.structs.replace(warm.config, min_reward=0.5)).result().name)
    names.add(replace(warm, config=msgspec.structs.replace(warm.config, lr=2.0)).result().name)
    names.add(replace(warm, settings=LearnerSettings(actor=ActorConfig(grad_clip=2.0))).result().name)
    (warm.model / "config.json").write_text('{"vocab_size": 99}')
    names.add(warm.result().name)
    parquet(Path(warm.config.rows), ([1, 2], [0, 1]))
    names.add(warm.result().name)
    assert len(names) == 7
    assert replace(warm, config=msgspec.structs.replace(warm.config, test_freq=1)).result() == warm.result()


def test_an_interrupted_warm_start_leaves_no_result(tmp_path: Path) -> None:
    warm = warm_start(tmp_path)

    def stop(step: int, steps: int, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm.run(StubLearner, stop)
    assert not warm.result().exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: not a conversation"),
        ('{"messages": [{"content": "x"}]}', "line 1: a message has no role"),
        ('{"messages": [], "tools": "["}', "line 1: not a conversation"),
        (json.dumps({"messages": [{"role": "user", "content": "x"}]}), "1 x the assistant says nothing in it"),
    ],
)
def test_conversations_are_checked_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str) -> None:
    monkeypatch.setattr("services.trainer.sft.rows.HuggingFaceTokenizer", lambda model: None)
    (tmp_path / "t.jsonl").write_text(line + "\n")
    with pytest.raises(ConfigError, match=said):
        read_rows(tmp_path / "t.jsonl", tmp_path, LIMITS)


def writing(folder: Path) -> None:
    folder.mkdir()
    (folder / "weights").touch()


def breaking(folder: Path) -> None:
    writing(folder)
    raise KeyboardInterrupt


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_result_that_is_interrupted_leaves_nothing_and_what_a_killed_one_left_goes(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        put(breaking, tmp_path / "warm-1")
    assert names(tmp_path) == {LOCK}
    (tmp_path / "warm-1.killed" / "made").mkdir(parents=True)
    (tmp_path / "warm-2.killed").mkdir()
    put(writing, tmp_path / "warm-1")
    assert names(tmp_path) == {LOCK, "warm-1", "warm-2.killed"}
    put(breaking, tmp_path / "warm-1")  # it is there: nothing is saved


def test_a_result_waits_for_one_that_is_being_saved(tmp_path: Path) -> None:
    def slow(folder: Path) -> None:
        other = threading.Thread(target=put, args=(breaking, tmp_path / "warm-1"))
        other.start()
        other.join(0.1)
        assert other.is_alive()
        writing(folder)
        waiting.append(other)

    waiting: list[threading.Thread] = []
    put(slow, tmp_path / "warm-1")
    waiting[0].join(20)
    assert not waiting[0].is_alive()
    assert names(tmp_path) == {LOCK, "warm-1"}


def test_a_copy_is_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        save_whole(breaking, tmp_path / "a" / "model")
    assert names(tmp_path / "a") == set()
    save_whole(writing, tmp_path / "a" / "model")
    assert names(tmp_path / "a") == {"model"}


def test_a_run_that_is_named_in_place_of_its_export_is_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    wanted = f"openforge export {tmp_path.name} --to sft --root {tmp_path.parent}, and name {tmp_path}/exports/sft"
    with pytest.raises(ConfigError, match=wanted):
        rows_file(str(tmp_path))
