"""What the network of a cluster does, and the small one of the tests lacks: a Service's port leads to a pod, wherever it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from kubernetes_asyncio import client

Behind = Callable[[], Awaitable[tuple[str, int]]]
"""Where a connection goes."""


@contextlib.asynccontextmanager
async def doors(address: str, behind: Mapping[int, Behind]) -> AsyncIterator[None]:
    """Listens on ports of an address of this machine; who connects is led on, and hung up on where there is nobody."""
    servers = [await asyncio.start_server(_door(where), address, port) for port, where in behind.items()]
    try:
        yield
    finally:
        for server in servers:
            server.close()


def fixed(host: str, port: int) -> Behind:
    """One place, always."""

    async def where() -> tuple[str, int]:
        return host, port

    return where


def pod_of(core: client.CoreV1Api, namespace: str, app: str, port: int) -> Behind:
    """The pod of an app that runs at that time."""

    async def where() -> tuple[str, int]:
        pods = (await core.list_namespaced_pod(namespace, label_selector=f"app={app}")).items
        [address] = [p.status.pod_ip for p in pods if p.status.phase == "Running" and not p.metadata.deletion_timestamp][-1:]
        return address, port

    return where


def _door(behind: Behind) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def led_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody there: no pod, or it does not listen yet
            inner_reader, inner_writer = await asyncio.open_connection(*await behind())
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        writer.close()

    return led_on


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
