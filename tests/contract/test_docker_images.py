"""Images of tasks, built in a real engine."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.orchestrator.backends.docker.images import BUILD_LOG, Images
from shared.errors import Cancelled, ImageError
from tests.contract.docker_room import BASE, DONE, Room, box, open_room

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("docker_engine")]


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    async with open_room(tmp_path) as opened:
        opened.watch()
        yield opened
        for image in await opened.docker.images.list(filters='{"reference": ["openforge-task-task"]}'):
            await opened.docker.images.delete(image["Id"], force=True)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A task's folder with something that no other test has in it."""
    folder = tmp_path / "task" / "environment"
    folder.mkdir(parents=True)
    (folder / "note.txt").write_text(secrets.token_hex(8))
    return folder


def dockerfile(environment: Path, *lines: str) -> None:
    (environment / "Dockerfile").write_text("\n".join([f"FROM {BASE}", *lines]))


async def test_a_tasks_image_is_built_from_its_folder(room: Room, environment: Path) -> None:
    dockerfile(environment, "WORKDIR /app", "COPY note.txt .")
    await room.start("s1", f"cat /app/note.txt; echo; {DONE}", dockerfile=environment / "Dockerfile")
    assert (await room.until("s1", "ended")).error is None
    assert (await room.backend.logs("s1")).startswith((environment / "note.txt").read_bytes())


async def test_a_group_builds_its_image_once(room: Room, environment: Path, caplog: pytest.LogCaptureFixture) -> None:
    dockerfile(environment, "COPY note.txt /", "RUN sleep 1")
    caplog.set_level("INFO")
    await asyncio.gather(*(room.start(name, dockerfile=environment / "Dockerfile") for name in ("s1", "s2", "s3")))
    for name in ("s1", "s2", "s3"):
        assert (await room.until(name, "ended")).error is None
    assert len([r for r in caplog.records if r.getMessage().startswith("building openforge-task-")]) == 1


async def test_other_content_is_another_image(room: Room, environment: Path, tmp_path: Path) -> None:
    dockerfile(environment, "COPY note.txt /")
    images = Images(room.docker, BASE)
    first = await images.ensure(box("s1", tmp_path / "s1", dockerfile=environment / "Dockerfile"))
    assert await images.ensure(box("s2", tmp_path / "s2", dockerfile=environment / "Dockerfile")) == first
    (environment / "note.txt").write_text("another")
    assert await images.ensure(box("s3", tmp_path / "s3", dockerfile=environment / "Dockerfile")) != first


async def test_a_build_that_fails_says_why_and_leaves_all_that_it_said(room: Room, environment: Path) -> None:
    dockerfile(environment, "RUN echo before the fall && exit 7")
    await room.start("s1", dockerfile=environment / "Dockerfile")
    error = (await room.until("s1", "ended")).error
    assert isinstance(error, ImageError)
    assert "before the fall" in str(error)
    assert "7" in str(error)
    assert "before the fall" in (room.folder / "attempts" / "s1" / BUILD_LOG).read_text()


async def test_a_build_that_takes_too_long_is_given_up(room: Room, environment: Path) -> None:
    dockerfile(environment, "RUN sleep 30")
    await room.start("s1", dockerfile=environment / "Dockerfile", build_timeout_s=1.5)
    error = (await room.until("s1", "ended")).error
    assert isinstance(error, ImageError)
    assert "not built within 1.5 s" in str(error)


async def test_who_waits_no_longer_does_not_end_the_build_for_others(room: Room, environment: Path) -> None:
    dockerfile(environment, "COPY note.txt /", "RUN sleep 3")
    asking = [asyncio.create_task(room.start(name, dockerfile=environment / "Dockerfile")) for name in ("s1", "s2")]
    await room.until("s2", "pull")
    await asyncio.sleep(1.0)
    await room.backend.end("s1", 0.0)
    assert isinstance((await room.until("s1", "ended")).error, Cancelled)
    assert (await room.until("s2", "ended")).error is None
    await asyncio.gather(*asking)


async def test_asking_returns_before_an_image_that_takes_long_is_built(room: Room, environment: Path) -> None:
    dockerfile(environment, "COPY note.txt /", "RUN sleep 12")
    await room.start("s1", dockerfile=environment / "Dockerfile")
    assert [seen.stage for seen in await room.backend.present()] == ["pull"]
    assert (await room.until("s1", "ended")).error is None


async def test_a_folder_without_a_dockerfile_is_an_error_of_its_image(room: Room, environment: Path) -> None:
    await room.start("s1", dockerfile=environment / "Dockerfile")
    assert isinstance((await room.until("s1", "ended")).error, ImageError)
