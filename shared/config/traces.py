"""Settings of traces."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.base import Count, Section, Whole


class TracesConfig(Section, frozen=True, kw_only=True):
    """What services tell to OpenTelemetry: a trace of every rollout, group and step.

    Attributes:
        to: `otlp` sends spans to `endpoint`, `file` writes them to `traces` of the run folder, as lines of OTLP's JSON.
        endpoint: of a collector that speaks OTLP over HTTP, with its path. Headers and certificates are taken from
            OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE).
        sample: share of the rollouts that are traced; groups and steps all are.
        content: put the messages of model calls into their spans, too.
        file_mb: size from which a file of `file` is put aside, as `<name>.jsonl.1`.
        older_files: of a process that are kept beside it; the oldest goes.
    """

    to: Literal["off", "file", "otlp"] = "off"
    endpoint: Annotated[str, Meta(pattern=r"^https?://[^/\s]+(/\S*)?$")] = "http://127.0.0.1:4318/v1/traces"
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    content: bool = False
    file_mb: Count = 256
    older_files: Whole = 3
