"""Where a run's sandboxes are made: the configured backend, and how programs see its sandboxes.

Each backend is imported only where it is chosen: its client library costs whoever does not need it nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from services.orchestrator.backends.port import Backend, Box
from services.orchestrator.depot import Depot
from services.orchestrator.sandbox import Isolation
from shared.config import Config

Place = Callable[[str], tuple[Isolation, Path]]
"""From a session to the isolation of its sandbox and its folder on this machine (of no meaning in containers). Only once the
backend is open."""


class Leaves(Protocol):
    """Where runners in containers fetch their work from."""

    async def put(self, box: Box) -> str:
        """Leaves the spec and the packages of a sandbox there, and gives the ticket that opens them."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """A backend, and how programs see its sandboxes."""

    backend: Backend
    place: Place


def site_of(config: Config, control_key: str) -> Site:
    """The configured one.

    Args:
        config: resolved configuration.
        control_key: of the proxy's control routes, where runners in containers are left their work.

    Raises:
        ConfigError: a setting that the backend needs is missing.
    """
    match config.orchestrator.backend:
        case "docker":
            return docker_site(config, Depot(config.proxy, control_key))
        case "kubernetes":
            return _kubernetes_site(config, Depot(config.proxy, control_key))
    return local_site(config)


def local_site(config: Config) -> Site:
    """Sandboxes of this machine."""
    from services.orchestrator.backends.local import LocalBackend

    backend = LocalBackend(config)
    return Site(backend, backend.place)


def docker_site(config: Config, depot: Leaves) -> Site:
    """Containers of a docker engine, which fetch from `depot`.

    Raises:
        SandboxError, ConfigError: see `docker_backend`.
    """
    from services.orchestrator.backends.docker.backend import docker_backend

    return Site(docker_backend(config, depot), _contained(config.orchestrator.uid))


def _kubernetes_site(config: Config, depot: Depot) -> Site:
    from services.orchestrator.backends.kubernetes.backend import kubernetes_backend

    return Site(kubernetes_backend(config, depot), _contained(config.orchestrator.kubernetes.uid))


def _contained(uid: int) -> Place:
    isolation = Isolation("container", True, uid)
    return lambda session: (isolation, Path("/"))
