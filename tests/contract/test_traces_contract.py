"""Trace context on the real bus, and spans at a real collector's door."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from shared.bus.nats import NatsBus, connect_nats
from shared.config import BusConfig, TracesConfig
from shared.events import RolloutStart, encode
from shared.keys import OPERATOR
from shared.subjects import subject_of
from shared.trace.context import HEADER, Place, parse, place_of
from shared.trace.export import Export
from shared.trace.spans import Span, spans_of
from shared.trace.tracer import Tracer
from tests.contract.bus_kit import Log, failed, start
from tests.contract.test_bus_strangers import headed, send
from tests.embedded import Address
from tests.waiting import until

pytestmark = pytest.mark.real
FILE = TracesConfig(to="file")


class Kept:
    """Keeps spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def take(self, spans: Sequence[Span]) -> None:
        self.spans += spans


@asynccontextmanager
async def connected(address: Address, run_id: str, tracer: Tracer | None) -> AsyncIterator[NatsBus]:
    bus = await connect_nats(BusConfig(url=address.url, keys=address.keys), run_id, OPERATOR, tracer=tracer)
    try:
        yield bus
    finally:
        await bus.close()


async def headers_of(address: Address, subject: str) -> dict[str, str]:
    """Those that a stream keeps of the last message on a subject."""
    client = await nats.connect(address.url, nkeys_seed=address.seed)
    try:
        stream = await client.jetstream().find_stream_name_by_subject(subject)
        return dict((await client.jetstream().get_last_msg(stream, subject)).headers or {})
    finally:
        await client.close()


async def test_a_message_has_the_context_of_its_trace_and_none_with_traces_off(nats_server: Address, run_id: str) -> None:
    kept = Kept()
    async with connected(nats_server, run_id, Tracer(FILE, kept)) as bus:
        await bus.publish(failed(run_id))
        await bus.publish(failed(run_id))
    headers = await headers_of(nats_server, subject_of(failed(run_id)))
    assert parse(headers[HEADER]) == place_of(failed(run_id))
    assert len(kept.spans) == 2, "the second time it was published it was the same message"
    async with connected(nats_server, run_id, None) as bus:
        await bus.publish(failed(run_id, 1))
    assert HEADER not in await headers_of(nats_server, subject_of(failed(run_id, 1)))


@pytest.mark.parametrize("context", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-x", "\N{SNOWMAN}", None])
async def test_whatever_context_a_command_comes_with_it_is_handled_and_a_true_one_is_linked_to(
    nats_server: Address, run_id: str, context: str | None
) -> None:
    kept, log = Kept(), Log()
    line = f"{HEADER}: {context}\r\nStatus: 503\r\n" if context else "X: y\r\n"
    async with connected(nats_server, run_id, Tracer(FILE, kept)) as bus:
        await bus.consume("watch", [RolloutStart], log, run_id=run_id)
        asked = start(run_id, 0)
        head = f"NATS/1.0\r\n{line}\r\n".encode()
        await send(nats_server, headed(subject_of(asked), head, encode(asked)))
        await until(lambda: log.got == [asked])
        await bus.publish(failed(run_id))
    root = kept.spans[-1]
    assert root.start == asked.at
    true = parse(context or "")
    assert root.links[1:] == ((true,) if true else ())


async def test_spans_are_exported_over_http_and_the_end_waits_for_them(tmp_path: Path) -> None:
    got: list[ExportTraceServiceRequest] = []

    async def take(request: web.Request) -> web.Response:
        got.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    export = Export(TracesConfig(to="otlp", endpoint=f"http://127.0.0.1:{port}/v1/traces"), tmp_path, "proxy", "1")
    wanted = spans_of(failed("run"))
    export.take(wanted)
    await export.close()
    await runner.cleanup()
    [resource] = got[0].resource_spans
    assert {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"] == "proxy"
    spans = resource.scope_spans[0].spans
    found = [(s.name, Place(int.from_bytes(s.trace_id, "big"), int.from_bytes(s.span_id, "big"))) for s in spans]
    assert found == [(s.name, s.place) for s in wanted]


async def test_a_collector_that_is_away_delays_the_end_by_seconds_at_most(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    export = Export(TracesConfig(to="otlp", endpoint="http://127.0.0.1:9/v1/traces"), tmp_path, "proxy", "1")
    own = [thread for thread in threading.enumerate() if thread not in before and thread.name.startswith("Otel")]
    export.take(spans_of(failed("run")))
    async with asyncio.timeout(20):  # it is three; the machine may be busy
        await export.close()
    assert own
    assert not any(thread.is_alive() for thread in own), "nothing goes on trying"


def test_without_traces_no_exporter_is_imported() -> None:
    named = "[name for name in sys.modules if 'exporter' in name or 'trace.export' in name]"
    code = f"import sys, services.app, services.proxy.service; print({named})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", "redis loads OpenTelemetry's metrics where they are installed; we load nothing"
