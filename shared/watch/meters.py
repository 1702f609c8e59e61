"""Counts of one service. Counting is adding to a plain number; what Prometheus wants is made when it asks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from shared.watch.table import BY_SHORT, METRICS, Metric

Labels = tuple[str, ...]


class Histogram:
    """How many values lay below each of some bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Takes one value in."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Meters:
    """The metrics of one process, by the names of `shared.watch.table` without their prefix.

    Args:
        service: which one it is; without labels, its metrics are 0 from the start.
    """

    def __init__(self, service: str) -> None:
        own = [m for m in METRICS if service in m.services]
        self._values: dict[str, dict[Labels, float]] = {m.short: {} for m in METRICS if m.kind != "histogram"}
        self._histograms = {m.short: Histogram(m.bounds) for m in METRICS if m.kind == "histogram"}
        self._own = {m.short for m in own}
        for metric in own:
            if metric.kind != "histogram" and not metric.labels:
                self._values[metric.short][()] = 0.0

    def add(self, name: str, number: float = 1, *labels: str) -> None:
        """Counts. Raises KeyError: there is no such metric."""
        values = self._values[name]
        values[labels] = values.get(labels, 0) + number

    def set(self, name: str, number: float, *labels: str) -> None:
        """A gauge, or a counter that somebody else keeps, stands at a number. Raises KeyError as `add`."""
        self._values[name][labels] = float(number)

    def replace(self, name: str, values: Mapping[Labels, float]) -> None:
        """A gauge, or a counter that somebody else keeps, has these values and no others."""
        assert name in self._values, f"there is no metric {name}"
        self._values[name] = {labels: float(value) for labels, value in values.items()}

    def observe(self, name: str, value: float) -> None:
        """Takes a value of a histogram in. Raises KeyError as `add`."""
        self._histograms[name].observe(value)

    def get(self, name: str, *labels: str) -> float:
        """What a metric stands at; 0 where it was not counted yet."""
        return self._values[name].get(labels, 0.0)

    def values(self) -> Iterator[tuple[Metric, dict[Labels, float]]]:
        """All that is counted, and all that this service has."""
        for name, values in self._values.items():
            metric = BY_SHORT[name]
            if values or name in self._own:
                yield metric, values

    def histograms(self) -> Iterator[tuple[Metric, Histogram]]:
        """Those of this service."""
        for name, histogram in self._histograms.items():
            metric = BY_SHORT[name]
            if name in self._own:
                yield metric, histogram
