"""TLS by settings: servers that want it, with certificates of a CA that only the settings know, and certificates of clients."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from shared.bus.nats import connect_nats
from shared.config import BusConfig, TlsConfig
from shared.errors import BusUnavailable, ConfigError, StoreUnavailable
from shared.events import WeightsLoaded
from shared.keys import OPERATOR
from shared.store.blobs import Blobs
from shared.store.connect import connect
from tests.embedded import MAX_PAYLOAD, Server

RUN = "run-1"
_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
pytestmark = pytest.mark.slow


def openssl(folder: Path, command: str) -> None:
    subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)


def signed(folder: Path, name: str) -> None:
    """`name.pem` and `name.key`, for 127.0.0.1, signed by the CA of the folder."""
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl(folder, f"req {_KEY} -subj /CN={name} -keyout {name}.key -out {name}.csr")
    openssl(folder, f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out {name}.pem")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CA, a server's certificate and a client's, and the CA of somebody else."""
    folder = tmp_path_factory.mktemp("certificates")
    for ca in ("ca", "other"):
        openssl(folder, f"req -x509 {_KEY} -subj /CN={ca} -addext keyUsage=keyCertSign -keyout {ca}.key -out {ca}.pem")
    signed(folder, "server")
    signed(folder, "client")
    return folder


def tls_of(made: Path, ca: str = "ca", client: str = "client") -> TlsConfig:
    shown = {"cert": str(made / f"{client}.pem"), "key": str(made / f"{client}.key")} if client else {}
    return TlsConfig(ca=str(made / f"{ca}.pem"), **shown)


@pytest.fixture
async def secured(mortal_nats: Server, tmp_path: Path, made: Path) -> BusConfig:
    """How to reach a NATS server that wants to see a certificate of its clients."""
    file = tmp_path / "nats" / "nats.conf"
    files = f'cert_file: "{made}/server.pem", key_file: "{made}/server.key", ca_file: "{made}/ca.pem"'
    file.write_text(f"{file.read_text()}\ntls {{ {files}, verify: true }}\n")
    await mortal_nats.start()
    url, keys = mortal_nats.address.url.replace("nats://", "tls://"), mortal_nats.address.keys
    return BusConfig(url=url, keys=keys, tls=tls_of(made), max_payload=MAX_PAYLOAD, max_bytes=64 * MAX_PAYLOAD)


async def test_a_bus_is_spoken_to_with_the_certificates_of_the_settings(secured: BusConfig) -> None:
    bus = await connect_nats(secured, RUN, OPERATOR)
    await bus.publish(WeightsLoaded(run_id=RUN, version=1))
    assert await bus.keys(WeightsLoaded, RUN) == {"v1"}
    await bus.close()


@pytest.mark.parametrize(("ca", "client"), [("other", "client"), ("ca", "")])
async def test_neither_a_bus_of_another_ca_nor_a_client_without_certificate_is_taken(
    secured: BusConfig, made: Path, ca: str, client: str
) -> None:
    with pytest.raises(BusUnavailable, match=r"(?i)certificate|closed|reset|eof"):
        await connect_nats(replace(secured, tls=tls_of(made, ca, client), timeout_s=1), RUN, OPERATOR)


async def test_a_bus_without_tls_is_hung_up_on_where_the_url_demands_it(mortal_nats: Server) -> None:
    await mortal_nats.start()
    config = BusConfig(url=mortal_nats.address.url.replace("nats://", "tls://"), keys=mortal_nats.address.keys, timeout_s=1)
    with pytest.raises(BusUnavailable, match="does not offer TLS"):
        await connect_nats(config, RUN, OPERATOR)


@asynccontextmanager
async def front(store: Server, made: Path) -> AsyncIterator[str]:
    """URL of what ends the encryption before a store, as stunnel does: the embedded server was built without TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(made / "ca.pem"))
    context.load_cert_chain(made / "server.pem", made / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    behind = int(store.address.url.rpartition(":")[2].partition("/")[0])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own_reader, own_writer = await asyncio.open_connection("127.0.0.1", behind)
        await asyncio.gather(_pass(reader, own_writer), _pass(own_reader, writer))

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield f"rediss://127.0.0.1:{listener.sockets[0].getsockname()[1]}/0"
    listener.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_a_store_is_spoken_to_with_the_certificates_of_the_settings(mortal_store: Server, made: Path) -> None:
    await mortal_store.start()
    async with front(mortal_store, made) as url:
        client = connect(url, mortal_store.address.login, 5.0, tls_of(made))
        blobs = Blobs(client, RUN)
        assert await blobs.get(await blobs.put(b"body" * 100_000)) == b"body" * 100_000
        await client.aclose()


@pytest.mark.parametrize(("ca", "client"), [("other", "client"), ("ca", "")])
async def test_neither_a_store_of_another_ca_nor_a_client_without_certificate_is_taken(
    mortal_store: Server, made: Path, ca: str, client: str
) -> None:
    await mortal_store.start()
    async with front(mortal_store, made) as url:
        store = connect(url, mortal_store.address.login, 1.0, tls_of(made, ca, client))
        with pytest.raises(StoreUnavailable):
            await Blobs(store, RUN).put(b"body")
        await store.aclose()


def test_certificates_that_would_not_be_used_or_cannot_be_read_are_an_error(made: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"store\.url does not begin with rediss://"):
        connect("redis://127.0.0.1/0", None, 1.0, tls_of(made))
    with pytest.raises(ConfigError, match=r"store\.tls: .*nothing\.pem: No such file"):
        connect("rediss://127.0.0.1/0", None, 1.0, TlsConfig(ca=str(tmp_path / "nothing.pem")))
    (tmp_path / "text.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"text\.pem.*PEM files"):
        connect("rediss://127.0.0.1/0", None, 1.0, TlsConfig(ca=str(tmp_path / "text.pem")))
    with pytest.raises(ConfigError, match=r"store\.keys to a folder") as refused:
        connect("redis://:secret@127.0.0.1/0")
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="belong together"):
        TlsConfig(cert="a.pem")


async def test_a_bus_that_would_be_spoken_to_in_the_clear_is_an_error(made: Path) -> None:
    with pytest.raises(ConfigError, match=r"bus\.url does not begin with tls://"):
        await connect_nats(BusConfig(url="tls://a, nats://b", tls=tls_of(made)), RUN, OPERATOR)
