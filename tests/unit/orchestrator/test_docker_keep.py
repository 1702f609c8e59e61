"""Which images of a docker engine go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from aiodocker import Docker
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.backends.docker.backend import DockerBackend
from services.orchestrator.backends.docker.container import Place
from services.orchestrator.backends.docker.keep import Image, superfluous
from shared.config import DockerConfig, ResourcesConfig

NOW, DAY, GB = 100 * 86400.0, 86400.0, 10**9


def images(*ages: float, gb: int = 10) -> list[Image]:
    return [Image(f"i{n}", (f"openforge-task-{n}:1",), gb * GB, NOW - age * DAY) for n, age in enumerate(ages)]


def gone(ages: list[float], config: DockerConfig) -> list[str]:
    return [image.id for image in superfluous(images(*ages), config, NOW)]


def test_images_that_were_not_used_for_long_go() -> None:
    assert gone([1, 15, 13, 20], DockerConfig(images_gb=0)) == ["i3", "i1"]


def test_of_too_much_the_longest_unused_goes_first() -> None:
    assert gone([2, 5, 4, 3], DockerConfig(images_days=0, images_gb=25)) == ["i1", "i2"]


def test_with_no_limit_all_stay() -> None:
    assert gone([2, 50, 99], DockerConfig(images_days=0, images_gb=0)) == []


def test_what_was_used_within_a_day_stays_however_much_it_is() -> None:
    assert gone([0.1, 0.9, 1.1], DockerConfig(images_days=0.5, images_gb=1)) == ["i2"]


@given(st.lists(st.integers(0, 90).map(float), max_size=8), st.integers(0, 60), st.integers(0, 60))
def test_what_is_too_much_goes_and_no_more(ages: list[float], days: int, gb: int) -> None:
    config = DockerConfig(images_days=days, images_gb=gb)
    going = superfluous(images(*ages), config, NOW)
    assert all(image.used < NOW - DAY for image in going)
    left = [image for image in images(*ages) if image not in going and image.used < NOW - DAY]
    assert not days or all(image.used >= NOW - days * DAY for image in left)
    assert not gb or not left or (len(ages) - len(going)) * 10 <= gb
    young = [image for image in going if days and image.used >= NOW - days * DAY]
    assert not young or (len(ages) - len(going) + 1) * 10 > gb


async def test_an_orchestrator_that_starts_removes_what_its_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    module, old, gone = "services.orchestrator.backends.docker.backend", images(40), list[Image]()

    async def look(docker: Docker) -> list[Image]:
        return [replace(old[0], used=time.time() - 40 * DAY), replace(old[0], used=time.time() - 2 * DAY)]

    async def remove(docker: Docker, unused: Sequence[Image]) -> int:
        gone.extend(unused)
        return len(unused)

    monkeypatch.setattr(f"{module}.look", look)
    monkeypatch.setattr(f"{module}.remove", remove)
    engine = cast(Any, Engine())
    place = Place("run", "/sockets", "public", ResourcesConfig())
    backend = DockerBackend(engine, place, engine, engine, engine, DockerConfig(images_days=30))
    await backend.open()
    await asyncio.gather(*backend._errands)
    assert [round((time.time() - image.used) / DAY) for image in gone] == [40]


class Engine:
    """An engine without any container."""

    def __init__(self) -> None:
        self.system = self.containers = self

    async def info(self) -> dict[str, object]:
        return {"OSType": "linux", "Name": "here", "MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True}

    async def list(self, **_: object) -> Sequence[object]:
        return []
