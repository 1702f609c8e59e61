"""The dashboard asks for metrics that there are, by labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from shared.watch.table import METRICS, Metric

FILE = Path(__file__).parents[3] / "k8s" / "grafana" / "openforge.json"
COMMON = {"run", "service", "instance"}
ENDS = ("_bucket", "_sum", "_count")
NAMES = {m.name + end: m for m in METRICS for end in (ENDS if m.kind == "histogram" else ("",))}


def panels() -> list[dict[str, Any]]:
    return [p for p in json.loads(FILE.read_text())["panels"] if p["type"] != "row"]


def targets() -> list[dict[str, Any]]:
    return [target for panel in panels() for target in panel["targets"]]


def asked_of(expression: str) -> list[Metric]:
    return [NAMES[name] for name in re.findall(r"openforge_\w+", expression)]


def test_every_metric_that_is_asked_for_exists() -> None:
    assert targets()
    for target in targets():
        assert asked_of(target["expr"]), target["expr"]


def test_labels_are_those_of_the_metric() -> None:
    for target in targets():
        known = COMMON.union(*({*m.labels, *({"le"} if m.bounds else ())} for m in asked_of(target["expr"])))
        filtered = re.findall(r"[{,]\s*(\w+)=", target["expr"])
        grouped = [label for names in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for label in names.split(", ")]
        shown = re.findall(r"{{(\w+)}}", target["legendFormat"])
        assert {*filtered, *grouped} <= known, target["expr"]
        assert set(shown) <= set(grouped), target["legendFormat"]


def test_every_metric_has_a_panel() -> None:
    shown = {m.name for target in targets() for m in asked_of(target["expr"])}
    assert {m.name for m in METRICS} - shown == set()


def test_counters_are_shown_as_rates() -> None:
    for target in targets():
        for name in re.findall(r"openforge_\w+", target["expr"]):
            counted = NAMES[name].kind != "gauge"
            assert counted == bool(re.search(rf"(?:rate|increase)\({name}\b", target["expr"])), target["expr"]


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    ids = [p["id"] for p in panels()]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for place in (p["gridPos"] for p in panels()):
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
