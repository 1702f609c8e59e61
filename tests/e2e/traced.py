"""The spans that a run exported to files, and that they hang together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Span = dict[str, Any]


def spans_in(folder: Path) -> list[Span]:
    """All spans in the files of a run's services."""
    batches = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
    return [s for batch in batches for r in batch["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]


def by_trace(spans: list[Span]) -> dict[str, list[Span]]:
    """Spans of each trace."""
    return {trace: [s for s in spans if s["traceId"] == trace] for trace in {s["traceId"] for s in spans}}


def check_whole(trace: list[Span], calls: int) -> None:
    """A rollout's trace has all of it, under one root, though its spans come from three services."""
    names = [s["name"] for s in trace]
    assert sum(name.startswith("chat ") for name in names) >= calls, names
    assert {"attempt 1", "agent", "verify", "session sealed", "trajectory assembled"} <= set(names), names
    check_hangs_together(trace)


def check_hangs_together(trace: list[Span]) -> None:
    """A rollout's trace has one root, and every other span its parent."""
    [root] = [s for s in trace if not s.get("parentSpanId")]
    assert root["name"].startswith("rollout ")
    ids = {s["spanId"] for s in trace}
    assert len(ids) == len(trace)
    assert all(s is root or s["parentSpanId"] in ids for s in trace)


def check_step(step: Span, spans: list[Span]) -> None:
    """A step has its phases and its weights' way out, and leads by links to every call that it learned from."""
    traces = by_trace(spans)
    names = [s["name"] for s in traces[step["traceId"]]]
    assert {"gen", "update", "weights written"} <= set(names), names
    assert names.count("push") == 2, names  # the trainer's phase, and the engine's new weights
    groups = linked(step, spans)
    assert groups
    for attempt in (attempt for group in groups for attempt in linked(group, spans)):
        trace = traces[attempt["traceId"]]
        check_hangs_together(trace)
        assert any(s["name"].startswith("chat ") and s["parentSpanId"] == attempt["spanId"] for s in trace)


def linked(span: Span, spans: list[Span]) -> list[Span]:
    """The spans that a span has links to; none may be missing."""
    places = {(s["traceId"], s["spanId"]): s for s in spans}
    return [places[link["traceId"], link["spanId"]] for link in span.get("links", [])]
