"""Every metric that a service may show: nothing is counted under another name. docs/observability.md has the same table."""

from __future__ import annotations

from typing import Literal, NamedTuple

PREFIX = "openforge_"
Kind = Literal["counter", "gauge", "histogram"]

CALL_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
ADDED_S = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
STEP_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class Metric(NamedTuple):
    """One metric.

    Attributes:
        services: that show it.
        short: its name without the prefix.
        kind: counters only grow while a process lives; histograms have `bounds`.
        labels: beside `run` and `service`, which all have.
        about: what it says, in one line.
        bounds: upper ends of the buckets, in seconds.
    """

    services: tuple[str, ...]
    short: str
    kind: Kind
    labels: tuple[str, ...]
    about: str
    bounds: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """As Prometheus has it."""
        return PREFIX + self.short


_ALL = ("proxy", "orchestrator", "collector", "trainer", "synth")
_P, _O, _C, _T = (("proxy",), ("orchestrator",), ("collector",), ("trainer",))
_ENDS = (*_O, *_P)

METRICS: tuple[Metric, ...] = (
    Metric(_ALL, "info", "gauge", ("version",), "Always 1: the version of OpenForgeRL that this process is."),
    Metric(_ALL, "ready", "gauge", (), "1 if the service has all that it depends on, as /readyz says."),
    Metric(_ALL, "messages_total", "counter", ("outcome",), "Messages that its consumers settled: handled, later, dead."),
    Metric(_ALL, "messages_repeated_total", "counter", ("type",), "Messages that it published, or was delivered, again."),

    Metric(_P, "calls_total", "counter", ("dialect", "delivery"), "Model calls that were recorded: sent whole, or cut."),
    Metric(_P, "calls_failed_total", "counter", ("status",), "Calls that were answered with an error, by HTTP status."),
    Metric(_P, "call_seconds", "histogram", (), "Of calls, from their arrival to the last byte of the reply.", CALL_S),
    Metric(_P, "call_added_seconds", "histogram", (), "What calls took here, recording included: without the engine's part "
           "and without being held.", ADDED_S),
    Metric(_P, "calls_held_total", "counter", (), "Calls that waited because no engine took any."),
    Metric(_P, "calls_held_seconds_total", "counter", (), "How long they waited."),
    Metric(_P, "requests_open", "gauge", (), "Requests of harnesses that are being served."),
    Metric(_P, "tokens_total", "counter", ("kind",), "Tokens of recorded calls: prompt, sampled."),
    Metric(_P, "engine_open", "gauge", ("engine",), "1 if calls may begin at an engine."),
    Metric(_P, "engine_weight_version", "gauge", ("engine",), "The weights that calls at an engine are stamped with."),
    Metric(_P, "engine_calls", "gauge", ("engine",), "Calls in flight at an engine, of all proxies."),

    Metric(_O, "rollouts", "gauge", ("state",), "Rollouts that are not over: waiting for a place, running."),
    Metric(_O, "rollouts_started_total", "counter", ("sandbox",), "Attempts whose agent began to run."),
    Metric(_ENDS, "rollouts_ended_total", "counter", ("outcome", "stage"), "Attempts that ended: finished, timed_out, or the "
           "class of the error; and the stage that they were in."),
    Metric(_ENDS, "rollout_stage_seconds_total", "counter", ("stage",), "Seconds that they spent in each stage."),

    Metric(_C, "trajectories_total", "counter", ("outcome",), "Attempts that were settled: assembled, or why discarded."),
    Metric(_C, "tokens_settled_total", "counter", ("fate",), "Sampled tokens of closed groups: trained, masked, dropped."),
    Metric(_C, "groups_completed_total", "counter", ("purpose",), "Groups that were completed: train, eval."),
    Metric(_C, "groups_discarded_total", "counter", ("reason",), "Groups that were discarded."),
    Metric(_C, "groups_open", "gauge", (), "Groups that wait for rollouts."),
    Metric(_C, "outbox", "gauge", (), "Closed groups that are not on the bus yet."),
    Metric(_C, "archive_bytes", "gauge", (), "Size of the archive on the disk."),
    Metric(_C, "consumer_lag", "gauge", ("consumer", "stream"), "Messages that a consumer of the run has not acknowledged."),
    Metric(_C, "stream_bytes", "gauge", ("stream",), "Size of a stream on the bus, of all runs."),
    Metric(_C, "stream_messages", "gauge", ("stream",), "Messages in it; FORGE-DEAD has those that nobody could handle."),

    Metric(_T, "steps_total", "counter", (), "Training steps."),
    Metric(_T, "step_seconds", "histogram", (), "Of training steps, rollouts and push included.", STEP_S),
    Metric(_T, "push_seconds", "histogram", (), "Of pushes to an engine, the wait for its calls included.", STEP_S),
    Metric(_T, "pushes_failed_total", "counter", ("engine",), "Pushes that failed; each is tried again."),
    Metric(_T, "weight_version", "gauge", (), "The newest weights."),
    Metric(_T, "groups_awaited", "gauge", (), "Groups that were started and are not closed."),
    Metric(_T, "step_metric", "gauge", ("key",), "Metrics of the last step, as in metrics.jsonl (docs/metrics.md)."),
)  # fmt: skip

BY_SHORT = {metric.short: metric for metric in METRICS}
