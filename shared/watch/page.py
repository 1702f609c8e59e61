"""Counts in Prometheus' words, made at each scrape."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from shared.watch.meters import Histogram, Meters

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def page(meters: Meters, run_id: str, service: str) -> bytes:
    """The metrics of a process, those of the process itself (memory, processor time) included."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Counts(meters, (run_id, service)))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return generate_latest(registry)


class _Counts(Collector):
    """Args: what is counted, and the values of the labels `run` and `service`."""

    def __init__(self, meters: Meters, about: tuple[str, str]) -> None:
        self._meters, self._about = meters, about

    def collect(self) -> Iterator[Metric]:
        for metric, values in self._meters.values():
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.about, labels=[*metric.labels, "run", "service"])
            for labels, value in values.items():
                family.add_metric([*labels, *self._about], value)
            yield family
        for metric, histogram in self._meters.histograms():
            made = HistogramMetricFamily(metric.name, metric.about, labels=["run", "service"])
            made.add_metric(self._about, _buckets(histogram), histogram.sum)
            yield made


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    ends = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    return list(zip(ends, map(float, accumulate(histogram.counts)), strict=True))
