"""The network of sandboxes whose task asks for the internet."""

from __future__ import annotations

from aiodocker import Docker, DockerError

from services.orchestrator.backends.docker.engine import CONFLICT, asking
from shared.errors import SandboxError

PUBLIC = "openforge-public"


async def ensure_network(docker: Docker, name: str) -> None:
    """Makes the network if it is not there. Its sandboxes do not reach each other.

    Raises:
        SandboxError: it cannot be made.
        SandboxAway: the engine does not answer.
    """
    options = {"com.docker.network.bridge.enable_icc": "false"}
    config = {"Name": name, "Driver": "bridge", "CheckDuplicate": True, "Options": options}
    with asking(f"the network {name}", SandboxError):
        try:
            await docker.networks.create(config)
        except DockerError as e:
            if e.status != CONFLICT:
                raise
