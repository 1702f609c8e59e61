"""When images were last used, and their removal, in a real engine that has other images too."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import pytest
from aiodocker import Docker, DockerError

from services.orchestrator.backends.docker.engine import connect
from services.orchestrator.backends.docker.images import build, have
from services.orchestrator.backends.docker.keep import Uses, look, remove
from services.orchestrator.backends.docker.tools import fill_volume
from tests.contract.docker_room import BASE, context

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("docker_engine")]


@pytest.fixture
async def docker() -> AsyncIterator[Docker]:
    client = connect("")
    yield client
    await client.close()


async def made(docker: Docker) -> tuple[str, str]:
    """An image with a name that no other has, and the pattern that finds it alone."""
    repository = f"openforge-harness-test{secrets.token_hex(6)}"
    file = f"FROM {BASE}\nRUN mkdir /openforge && echo {repository} >/openforge/name\n"
    await build(docker, f"{repository}:v1", context(Dockerfile=file), 120.0, print)
    return f"{repository}:v1", f"{repository}*"


async def test_use_is_noted_for_all_and_an_image_that_was_used_meanwhile_stays(docker: Docker) -> None:
    name, pattern = await made(docker)
    [before] = await look(docker, [pattern])
    await asyncio.sleep(0.01)
    await Uses(docker).note(name)
    [after] = await look(docker, [pattern])
    assert (after.used > before.used, after.id, after.names) == (True, before.id, (name,))
    assert await remove(docker, [before]) == 0
    assert await have(docker, name)
    assert await remove(docker, [after]) == 1
    assert not await have(docker, name)
    await Uses(docker).note(name)  # it is gone: a warning, and no error


async def test_an_image_goes_with_its_volume_and_all_its_names_unless_a_container_has_them(docker: Docker) -> None:
    name, pattern = await made(docker)
    await docker.images.tag(name, name.partition(":")[0], tag="latest")
    volume = name.replace(":", "-")
    await fill_volume(docker, name, volume)
    mount = {"Type": "volume", "Source": volume, "Target": "/openforge"}
    user = await docker.containers.create({"Image": BASE, "HostConfig": {"Mounts": [mount]}})
    assert await remove(docker, await look(docker, [pattern])) == 0
    assert await have(docker, name)
    await fill_volume(docker, name, volume)  # as whoever goes on with it does
    await user.delete()
    assert await remove(docker, await look(docker, [pattern])) == 1
    assert await look(docker, [pattern]) == []
    with pytest.raises(DockerError):
        await docker.volumes.get(volume)
    assert await have(docker, BASE)
