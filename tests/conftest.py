"""Engines and servers that tests of several rooms use."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from services.dev.scratch import scratch
from services.dev.servers import free_port
from services.trainer.vllm.command import vllm_command
from shared.config import EngineConfig
from tests.embedded import Address, nats, valkey
from tests.engine.scripted import ScriptedEngine

_START_S = 420.0
NO_VIDEOS = '{"image": 4, "video": 0}'
_STARTING = {
    "scripted_engine",
    "house",
    "bench_of",
    "nats_server",
    "store_server",
    "teacher",
    "server",
    "programs",
    "model_folder",
}
"""Fixtures that start a server or a program."""

settings.register_profile("fast", max_examples=5)
_ROOT = Path(__file__).parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts anything is slow; `make test-fast` leaves it out."""
    for item in items:
        if isinstance(item, pytest.Function) and _STARTING & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """An embedded NATS server that nobody may hurt."""
    server = nats(tmp_path_factory.mktemp("nats"))
    asyncio.run(server.start())
    yield server.address
    server.kill()


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """An embedded valkey server that nobody may hurt."""
    server = valkey(tmp_path_factory.mktemp("valkey"))
    asyncio.run(server.start())
    yield server.address
    server.kill()


@pytest.fixture
async def scripted_engine() -> AsyncIterator[ScriptedEngine]:
    """A scripted engine of this test alone."""
    engine = ScriptedEngine()
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture(scope="session")
def vllm_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a real vLLM that serves a tiny random model as `policy`."""
    with _served(tmp_path_factory.mktemp("vllm"), "tests.engine.tiny_model") as engine:
        yield engine.url


@pytest.fixture(scope="session")
def vision_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineConfig]:
    """A real vLLM that serves a tiny random model that sees, as `policy`."""
    with _served(tmp_path_factory.mktemp("vision"), "tests.engine.vision_model", "--limit-mm-per-prompt", NO_VIDEOS) as engine:
        yield engine


@pytest.fixture(scope="session")
def moe_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineConfig]:
    """A real vLLM that serves a tiny random mixture of experts as `policy`, and says which of them it chose."""
    with _served(tmp_path_factory.mktemp("moe"), "tests.engine.moe_model", "--enable-return-routed-experts") as engine:
        yield engine


@pytest.fixture(scope="session")
def scripted_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a scripted engine in a process of its own; to `slow` it gives a long answer, slowly."""
    folder, port = tmp_path_factory.mktemp("scripted"), free_port()
    script = {"rules": [{"contains": "slow", "text": "word " * 100, "token_delay_s": 0.02}]}
    (folder / "script.json").write_text(json.dumps(script))
    command = [sys.executable, "-m", "tests.engine.scripted", "--script", str(folder / "script.json"), "--port", str(port)]
    with _process(command, {}, port, folder / "scripted.log") as url:
        yield url


@contextmanager
def _served(folder: Path, maker: str, *args: str) -> Iterator[EngineConfig]:
    """A vLLM that serves what a module makes; weights may be pushed from `weights` beside the model."""
    port, model = free_port(), folder / "model"
    config = EngineConfig(
        url=f"http://127.0.0.1:{port}", model=str(model), max_model_len=512, kv_cache_mb=64, max_num_seqs=16, args=list(args)
    )
    (folder / "weights").mkdir()
    command, env = vllm_command(config, port, str(model), folder / "weights")
    subprocess.run([sys.executable, "-m", maker, str(model)], env=os.environ | env, check=True, cwd=_ROOT)
    with _process(command, env, port, folder / "vllm.log"):
        yield config


@contextmanager
def _process(command: list[str], env: dict[str, str], port: int, log: Path) -> Iterator[str]:
    """A server process on a port, from the moment it is healthy; gives its URL."""
    with scratch() as tmp, log.open("w") as output:
        mine = os.environ | env | {"TMPDIR": str(tmp)}
        process = subprocess.Popen(command, env=mine, stdout=output, stderr=output, cwd=_ROOT)
        try:
            _wait_healthy(process, f"http://127.0.0.1:{port}", log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
                if response.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"the engine did not come up:\n{log.read_text()[-3000:]}")
