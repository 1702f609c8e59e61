"""Which server the bus is on: several of a cluster, of which some are down, and one that demands TLS."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from msgspec.structs import replace

from services.dev.servers import free_port
from shared.bus.nats import connect_nats
from shared.config import BusConfig
from shared.errors import BusUnavailable
from shared.events import WeightsLoaded
from shared.keys import OPERATOR
from tests.embedded import MAX_PAYLOAD, Address, Server, nats

RUN = "run-1"
CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=tests "
    "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
)


def config_of(address: Address, url: str = "") -> BusConfig:
    return BusConfig(
        url=url or address.url, keys=address.keys, max_payload=MAX_PAYLOAD, max_bytes=64 * 1024 * 1024, timeout_s=5
    )


async def publish_and_read(config: BusConfig) -> None:
    """Publishes a message and reads it back."""
    bus = await connect_nats(config, RUN, OPERATOR)
    try:
        await bus.publish(WeightsLoaded(run_id=RUN, version=1))
        assert await bus.keys(WeightsLoaded, RUN) == {"v1"}
    finally:
        await bus.close()


@pytest.fixture
def nats_with_tls(tmp_path: Path, mortal_nats: Server) -> Server:
    """The server, not started yet, with a certificate for 127.0.0.1 that signs itself: ``cert.pem``."""
    subprocess.run(CERTIFICATE.split(), cwd=tmp_path, check=True, capture_output=True)
    file = tmp_path / "nats" / "nats.conf"
    file.write_text(f'{file.read_text()}\ntls {{ cert_file: "{tmp_path}/cert.pem", key_file: "{tmp_path}/key.pem" }}\n')
    return mortal_nats


@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run])  # each has its own TLS; the services use the latter
@pytest.mark.parametrize("scheme", ["tls", "nats"])
def test_a_server_that_demands_tls_is_spoken_to_so(
    nats_with_tls: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, loop: Callable[[Any], None]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    loop(nats_with_tls.start())
    url = nats_with_tls.address.url.replace("nats://", f"{scheme}://")
    loop(publish_and_read(config_of(nats_with_tls.address, url)))


async def test_records_go_out_again_after_a_server_with_tls_was_killed(
    nats_with_tls: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    await nats_with_tls.start()
    bus = await connect_nats(config_of(nats_with_tls.address), RUN, OPERATOR)
    await bus.publish(WeightsLoaded(run_id=RUN, version=1))
    nats_with_tls.kill()
    await nats_with_tls.start()
    await bus.publish(WeightsLoaded(run_id=RUN, version=2))
    assert await bus.keys(WeightsLoaded, RUN) == {"v1", "v2"}
    await bus.close()


async def test_a_certificate_that_nobody_vouches_for_is_not_taken(nats_with_tls: Server) -> None:
    await nats_with_tls.start()
    url = nats_with_tls.address.url.replace("nats://", "tls://")
    with pytest.raises(BusUnavailable, match="certificate"):
        await connect_nats(replace(config_of(nats_with_tls.address, url), timeout_s=1), RUN, OPERATOR)


async def test_a_server_of_the_list_that_is_down_is_passed_over(mortal_nats: Server) -> None:
    await mortal_nats.start()
    dead = f"nats://127.0.0.1:{free_port()}"
    await publish_and_read(config_of(mortal_nats.address, f"{dead}, {mortal_nats.address.url}"))


async def test_a_server_that_goes_down_is_passed_over_from_then_on(mortal_nats: Server, tmp_path: Path) -> None:
    other = nats(tmp_path / "other")
    await mortal_nats.start()
    await other.start()
    urls = f"{mortal_nats.address.url},{other.address.url}"
    bus = await connect_nats(replace(config_of(mortal_nats.address, urls), timeout_s=1.5), RUN, OPERATOR)
    await bus.publish(WeightsLoaded(run_id=RUN, version=1))
    mortal_nats.kill()
    with pytest.raises(BusUnavailable, match="Authorization Violation"):  # so it was asked: it knows other keys
        await bus.publish(WeightsLoaded(run_id=RUN, version=2))
    await bus.close()
    other.kill()
