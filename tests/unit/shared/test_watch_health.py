"""Whether a service says that it is ready, and what it says when it is not."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from shared.config import MetricsConfig
from shared.errors import BusUnavailable, ConfigError
from shared.watch import health
from shared.watch.server import WatchServer
from shared.watch.watch import Watch


async def there() -> None:
    """It is."""


async def away() -> None:
    raise BusUnavailable("nobody listens")


async def silent() -> None:
    await asyncio.sleep(60)


async def ready(watch: Watch) -> tuple[int, dict[str, str]]:
    page = await watch.answer("/readyz")
    return page.status, json.loads(page.body)["missing"]


async def test_what_is_missing_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "READY_S", 0.05)
    watch = Watch("collector", "r")
    watch.health.checks = {"bus": there, "store": there}
    assert await ready(watch) == (200, {})
    watch.health.checks = {"bus": away, "store": silent, "engine": there}
    assert await ready(watch) == (503, {"bus": "nobody listens", "store": "no answer within 0.05 s"})
    assert (await watch.answer("/healthz")).status == 200
    assert (await watch.word()).missing.keys() == {"bus", "store"}


async def test_a_service_that_starts_or_stops_is_not_ready_whatever_it_has() -> None:
    watch = Watch("collector", "r")
    watch.health.checks = {"bus": there}
    watch.health.state = "it is stopping"
    assert await ready(watch) == (503, {"service": "it is stopping"})
    page = (await watch.answer("/metrics")).body.decode()
    assert 'openforge_ready{run="r",service="collector"} 0.0' in page


async def test_counts_that_cannot_be_read_do_not_keep_the_others_from_being_told(caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch("collector", "r")
    watch.sources.append(away)
    watch.meters.set("groups_open", 7)
    assert "openforge_groups_open" in (await watch.answer("/metrics")).body.decode()
    assert "nobody listens" in caplog.text


async def test_it_answers_on_a_port_and_says_where() -> None:
    watch = Watch("trainer", "r")
    server = WatchServer(watch, MetricsConfig())
    await server.start()
    try:
        async with aiohttp.ClientSession() as http:
            for path in ("/healthz", "/readyz", "/status", "/metrics"):
                async with http.get(watch.url + path) as reply:
                    assert reply.status == 200, path
            async with http.get(watch.url + "/else") as reply:
                assert reply.status == 404
        other = WatchServer(watch, MetricsConfig(port=int(watch.url.rpartition(":")[2])))
        with pytest.raises(ConfigError, match="set it to 0"):
            await other.start()
        await other.stop()
    finally:
        await server.stop()
        await server.stop()
