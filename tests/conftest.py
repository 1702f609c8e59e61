"""Engines and servers that tests of several rooms use."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.embedded import Address, nats, valkey
from tests.engine.scripted import ScriptedEngine

_VLLM_ENV = {
    "OMP_NUM_THREADS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_SERVER_DEV_MODE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_PLUGINS": "", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip
_VLLM_ARGS = (
    "--served-model-name", "policy", "--host", "127.0.0.1", "--max-model-len", "512", "--enforce-eager", "--dtype", "float32",
    "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--distributed-executor-backend", "uni",
    "--kv-cache-memory-bytes", "67108864", "--max-num-seqs", "16", "--disable-uvicorn-access-log",
)  # fmt: skip
_START_S = 180.0
_ROOT = Path(__file__).parent.parent


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
    folder = tmp_path_factory.mktemp("vllm")
    env = os.environ | _VLLM_ENV
    subprocess.run([sys.executable, "-m", "tests.engine.tiny_model", str(folder / "model")], env=env, check=True, cwd=_ROOT)
    vllm = str(Path(sys.executable).parent / "vllm")
    with _process([vllm, "serve", str(folder / "model"), *_VLLM_ARGS], env, folder / "vllm.log") as url:
        yield url


@pytest.fixture(scope="session")
def scripted_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a scripted engine in a process of its own; to `slow` it gives a long answer, slowly."""
    folder = tmp_path_factory.mktemp("scripted")
    script = {"rules": [{"contains": "slow", "text": "word " * 100, "token_delay_s": 0.02}]}
    (folder / "script.json").write_text(json.dumps(script))
    command = [sys.executable, "-m", "tests.engine.scripted", "--script", str(folder / "script.json")]
    with _process(command, dict(os.environ), folder / "scripted.log") as url:
        yield url


@contextmanager
def _process(command: list[str], env: dict[str, str], log: Path) -> Iterator[str]:
    """A server process on a free port, from the moment it is healthy; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("w") as output:
        process = subprocess.Popen([*command, "--port", str(port)], env=env, stdout=output, stderr=output, cwd=_ROOT)
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
