"""A docker engine, and its errors in this project's words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiodocker import Docker, DockerError

from shared.errors import SandboxAway, SandboxError

DEFAULT = "unix:///var/run/docker.sock"
NOT_FOUND, CONFLICT = 404, 409
_UNREACHABLE = frozenset({503, 900})  # 900 is aiodocker's own: no connection
_REQUEST = aiohttp.ClientTimeout(total=600.0, sock_connect=10.0)


def connect(host: str) -> Docker:
    """A client of the engine at `host`; empty takes $DOCKER_HOST, else the usual socket. Needs a running event loop.

    Raises:
        SandboxError: that is no address of an engine.
    """
    host = host or os.environ.get("DOCKER_HOST") or DEFAULT
    try:
        return Docker(url=host, timeout=_REQUEST)
    except ValueError as e:
        raise SandboxError(f"orchestrator.docker.host {host!r} is no address of a docker engine: {e}") from None


@contextmanager
def asking(what: str, kind: type[SandboxError] = SandboxError) -> Iterator[None]:
    """Says what an engine refused as `kind`, with `what` before its reason.

    Raises:
        SandboxAway: the engine does not answer.
        SandboxError: it refuses.
    """
    try:
        yield
    except DockerError as e:
        if e.status in _UNREACHABLE:
            raise SandboxAway(f"{what}: the docker engine does not answer: {e.message}") from None
        raise kind(f"{what}: {e.message.strip()}") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as e:
        raise SandboxAway(f"{what}: the docker engine does not answer: {str(e) or type(e).__name__}") from None
