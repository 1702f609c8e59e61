"""`metrics.jsonl`, whoever writes it after whom."""

from __future__ import annotations

import json
from pathlib import Path

from services.trainer.books.metrics_file import MetricsFile


def test_what_an_earlier_trainer_wrote_is_not_written_again(tmp_path: Path) -> None:
    told: list[tuple[int, dict[str, float]]] = []

    def tell(step: int, metrics: dict[str, float]) -> None:
        told.append((step, metrics))

    first = MetricsFile(tmp_path / "m")
    first.add_evaluation(0, 1.0, {"heldout/success": 0.5})
    first.add_step(1, 1.0, {"x": 1.0})
    with (tmp_path / "m").open("ab") as f:
        f.write(b'{"step": 2, "x"')  # killed meanwhile
    second = MetricsFile(tmp_path / "m")
    second.told = tell
    for step in (0, 1):
        second.add_evaluation(step, 2.0, {"heldout/success": 0.75})
    for step in (1, 2):
        second.add_step(step, 2.0, {"x": 2.0})
    known = [json.loads(line) for line in (tmp_path / "m").read_text().splitlines()]
    assert [(m["step"], m["at"]) for m in known] == [(0, 1.0), (1, 1.0), (1, 2.0), (2, 2.0)]
    assert told == [(1, {"heldout/success": 0.75}), (2, {"x": 2.0})]
