"""The kits of the twin and of this machine, and the fixture that gives each of the kits to the contract tests."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.orchestrator.backends.local import LocalBackend
from services.orchestrator.backends.port import Box
from services.orchestrator.spec import Phase, Spec
from shared.errors import ImageError
from tests.contract.backend_kit import Kit
from tests.contract.docker_kit import DockerKit
from tests.kube.cluster import Cluster
from tests.kube.kit import KubernetesKit, load_images
from tests.twin_backend import WORKDIR, Place, Play, TwinBackend
from tests.unit.orchestrator.runners import Bench, isolation_of

VERIFIER = """#!/bin/sh
if [ "$(cat out.txt)" = hello ]; then echo 1; else echo 0; fi > "$LOGS_DIR/verifier/reward.txt"
"""


class TwinKit:
    """Sandboxes in memory."""

    workdir = WORKDIR
    images = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place = Place(lambda box: Play(error=ImageError("there is no such image")) if box.image else self._spoken(box))

    async def backend(self) -> TwinBackend:
        backend = TwinBackend(self._place)
        await backend.open()
        return backend

    def box(self, script: str, name: str = "r1-a1", *, timeout_s: float = 120.0, grace_s: float = 0.3) -> Box:
        phase: Phase = {"argv": [script], "timeout_s": timeout_s}  # type: ignore[typeddict-item]
        spec: Spec = {"phases": [phase], "grace_s": grace_s, "lease_s": 0.0}  # type: ignore[typeddict-item]
        return Box(name, {}, spec, self._folder)

    def broken(self, name: str = "r1-a1") -> Box:
        return Box(name, {}, self.box("").spec, self._folder, image="broken")

    async def vanish(self, name: str) -> None:
        await self._place.take_away(name)

    async def interrupt(self) -> None:
        pass

    async def close(self) -> None:
        await self._place.close()

    @staticmethod
    def _spoken(box: Box) -> Play:
        return Play(box.spec["phases"][0]["argv"][-1])


class LocalKit:
    """Sandboxes of this machine, with bubblewrap."""

    workdir = "/app"
    images = False

    def __init__(self, folder: Path, open_folder: Path) -> None:
        task = folder / "task"
        parts = {"task.toml": "", "instruction.md": "Write hello to out.txt.\n", "tests/test.sh": VERIFIER}
        for path, text in parts.items():
            (task / path).parent.mkdir(parents=True, exist_ok=True)
            (task / path).write_text(text)
        self._bench = Bench(isolation_of("bubblewrap"), task, folder / "runs", open_folder)
        self._opened: list[LocalBackend] = []

    async def backend(self) -> LocalBackend:
        self._opened.append(await self._bench.backend())
        return self._opened[-1]

    def box(self, script: str, name: str = "r1-a1", *, timeout_s: float = 120.0, grace_s: float = 0.3) -> Box:
        return self._bench.box(script, name, timeout_s=timeout_s, grace_s=grace_s)

    def broken(self, name: str = "r1-a1") -> Box:
        box = self.box("exit 0", name)
        box.spec["phases"][0]["argv"][1:1] = ["--ro-bind", "/no/such/folder", "/x"]
        return box

    async def vanish(self, name: str) -> None:
        status = self._bench.status(name)
        assert status is not None
        os.kill(status["pid"], signal.SIGKILL)
        psutil.wait_procs([p for p in psutil.process_iter() if p.pid == status["pid"]], timeout=10)
        shutil.rmtree(self._bench.sandboxes / name, ignore_errors=True)

    async def interrupt(self) -> None:
        pass

    async def close(self) -> None:
        backend = await self._bench.backend()
        for seen in await backend.present():
            await backend.remove(seen.name)
        await backend.close()


@pytest.fixture
def twin_kit(tmp_path: Path) -> Kit:
    return TwinKit(tmp_path)


@pytest.fixture
def local_kit(tmp_path: Path) -> Iterator[Kit]:
    with tempfile.TemporaryDirectory() as open_folder:
        Path(open_folder).chmod(0o711)
        yield LocalKit(tmp_path, Path(open_folder))


@pytest.fixture
def docker_kit(docker_engine: None, tmp_path: Path) -> Kit:
    return DockerKit(tmp_path)


@pytest.fixture(scope="session")
def node_with_images(docker_engine: None, real_node: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The real node, with the images of tasks and of the harness out of the docker engine."""
    load_images(real_node, tmp_path_factory.mktemp("images"))
    return real_node


@pytest.fixture
def kubernetes_kit(node_with_images: Cluster, namespace: str, tmp_path: Path) -> Kit:
    return KubernetesKit(tmp_path, node_with_images, namespace)


_SLOW, _REAL = [pytest.mark.slow], [pytest.mark.real, pytest.mark.slow]
_KITS = [
    "twin", pytest.param("local", marks=_SLOW), pytest.param("docker", marks=_REAL),
    pytest.param("kubernetes", marks=[pytest.mark.fleet, *_REAL]),
]  # fmt: skip


@pytest.fixture(params=_KITS)
def backend_kit(request: pytest.FixtureRequest) -> Kit:
    """Each kit in turn; a backend that is not here is a skip by name."""
    kit: Kit = request.getfixturevalue(f"{request.param}_kit")
    return kit
