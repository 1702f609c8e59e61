"""The picture of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.trainer.books.picture import draw_run, read_curves
from shared.errors import ConfigError


def write(folder: Path, *lines: dict[str, object]) -> Path:
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_rewards_and_evaluations_are_told_apart(tmp_path: Path) -> None:
    low = {"heldout/success/low": 0.1, "heldout/success/high": 0.5}
    write(
        tmp_path, {"step": 0, "at": 1.0, "heldout/success": 0.25, **low}, {"step": 1, "at": 1.0, "critic/rewards/mean": 0.5},
        {"step": 2, "at": 1.0, "training/skipped": 1.0}, {"step": 2, "at": 2.0, "heldout/success": 1.0},
    )  # fmt: skip
    curves = read_curves(tmp_path / "metrics.jsonl")
    assert (curves.reward, curves.success, curves.interval) == ([(1, 0.5)], [(0, 0.25), (2, 1.0)], [(0, 0.1, 0.5)])


def test_the_picture_is_a_png_with_the_curves_in_it(tmp_path: Path) -> None:
    from matplotlib.image import imread

    steps: list[dict[str, object]] = [{"step": s, "critic/rewards/mean": s / 9} for s in range(1, 10)]
    both = write(tmp_path, {"step": 0, "heldout/success": 0.2}, *steps)
    image = imread(draw_run(both))[..., :3]
    assert image.shape == (675, 1200, 3)
    blue, orange = (0x1F / 255, 0x5F / 255, 0xA8 / 255), (0xC4 / 255, 0x54 / 255, 0x1A / 255)
    seen = [int((abs(image - color).sum(-1) < 0.05).sum()) for color in (blue, orange)]
    assert seen[0] > 1000  # a line across the picture
    assert seen[1] > 50  # one point, and the legend
    assert not list(tmp_path.glob("*.part"))


def test_where_there_is_nothing_to_draw_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a run writes it step by step"):
        draw_run(tmp_path)
    with pytest.raises(ConfigError, match="no step with a reward"):
        draw_run(write(tmp_path, {"step": 1, "training/skipped": 1}))
