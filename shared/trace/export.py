"""Spans on their way out, through OpenTelemetry's SDK. Imported only where traces are asked for: it takes half a second."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from shared.config import TracesConfig
from shared.rotation import MB, Bound, rotate
from shared.trace.context import Place
from shared.trace.spans import Span

log = logging.getLogger(__name__)

_QUEUE = 8192  # spans that wait; a collector that is away costs the rest, never a rollout
_EVERY_MS = 1000
_END_S = 3.0  # that the end of a service waits for what was not exported yet
_LOOK_S = 0.02
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("openforge")


class Export:
    """Exports spans in the background, in batches.

    Args:
        config: where to.
        folder: of the run; files go to its `traces`.
        service: name of the service.
        version: of OpenForgeRL.
    """

    def __init__(self, config: TracesConfig, folder: Path, service: str, version: str) -> None:
        about = {"service.name": service, "service.namespace": "openforge", "service.version": version}
        self._resource = Resource.create(about | {"service.instance.id": f"{socket.gethostname()}:{os.getpid()}"})
        bound = Bound(config.file_mb * MB, config.older_files)
        to_file = config.to == "file"
        self._exporter = FileExporter(folder / "traces", service, bound) if to_file else OTLPSpanExporter(config.endpoint)
        self._batches = BatchSpanProcessor(self._exporter, max_queue_size=_QUEUE, schedule_delay_millis=_EVERY_MS)

    def take(self, spans: Sequence[Span]) -> None:
        """Has spans exported within a second or so."""
        for span in spans:
            self._batches.on_end(self._readable(span))

    async def close(self) -> None:
        """Exports what is left, for three seconds at most."""
        end = threading.Thread(target=self._batches.shutdown, name="end of traces", daemon=True)
        end.start()
        if not await _ended(end, _END_S):
            log.warning("not all spans could be exported within %g s", _END_S)
            self._exporter.shutdown()  # which has it try no more
            await _ended(end, _END_S)

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span.place),
            parent=_context(span.parent) if span.parent else None,
            resource=self._resource,
            attributes=span.attributes,
            links=[Link(_context(place)) for place in span.links],
            kind=SpanKind.CLIENT if span.client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=int(span.start * 1e9),
            end_time=int(span.end * 1e9),
            instrumentation_scope=_SCOPE,
        )


class FileExporter(SpanExporter):
    """Appends to a file of this process: a batch a line, OTLP as JSON, as a collector's `otlpjsonfile` receiver reads it.

    Args:
        folder: of the files; made if there is none.
        service: that the file is named after.
        bound: how much it may hold.
    """

    def __init__(self, folder: Path, service: str, bound: Bound) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{service}-{socket.gethostname()}-{os.getpid()}.jsonl"
        self._bound = bound

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Writes a batch."""
        try:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(encode_spans(spans).to_json() + "\n")
            rotate(self._file, self._bound)
        except OSError as e:
            log.warning("spans could not be written: %s", e)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


async def _ended(thread: threading.Thread, within_s: float) -> bool:
    until = monotonic() + within_s
    while thread.is_alive() and monotonic() < until:  # noqa: ASYNC110 - a thread of the SDK's, which has no event to wait for
        await asyncio.sleep(_LOOK_S)
    return not thread.is_alive()


def _context(place: Place) -> SpanContext:
    return SpanContext(place.trace, place.span, is_remote=False, trace_flags=_SAMPLED)
