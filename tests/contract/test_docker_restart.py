"""An engine that is killed and comes back. It is one of the test's own, beside the machine's."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shared.errors import SandboxAway
from tests.contract.docker_room import DONE, TOOLS_IMAGE, Room, ScriptedTools, open_room
from tests.waiting import until

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.usefixtures("docker_engine")]


class Engine:
    """A dockerd whose containers outlive it."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.host = f"unix://{folder}/docker.sock"
        self._log, self._pid = folder / "log", folder / "pid"
        self.containerd = folder / "exec" / "containerd" / "containerd.pid"
        self._argv = [
            "unshare", "--net", str(program),  # an engine without a bridge would remove the machine's
            "--host", self.host, "--live-restore", "--bridge=none", "--iptables=false", "--ip-forward=false",
            f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={self._pid}",
        ]  # fmt: skip
        top = program.parents[2]  # not installed, but unpacked there
        libraries = [str(path) for path in top.glob("usr/lib/*-linux-gnu*")] if top != Path("/") else []
        self._env = os.environ | {
            "PATH": f"{program.parent}:{os.environ['PATH']}", "LD_LIBRARY_PATH": ":".join(libraries),
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # Of those that were killed: by now a number may be somebody else's, or that of one which nobody has waited for. An
        # engine takes either for its own.
        self._pid.unlink(missing_ok=True)
        if not _is_containerd(self.containerd):
            self.containerd.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._argv, env=self._env, stdout=log, stderr=log)

    def end(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def log(self) -> str:
        """The end of what it said."""
        return self._log.read_text(errors="replace")[-5000:]

    def answers(self) -> bool:
        return subprocess.run(["docker", "--host", self.host, "info"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine of the test's own, with nothing in it."""
    docker = shutil.which("docker")
    program = shutil.which("dockerd") or (docker and Path(docker).resolve().parents[1] / "sbin" / "dockerd")
    if os.geteuid() or not program or not Path(program).exists():
        pytest.skip("an engine of one's own takes root and a dockerd: scripts/docker-engine.sh DIR, then source DIR/env")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))  # not below pytest's: paths of its unix sockets would be too long
    own = Engine(Path(program), folder)
    own.start()
    try:
        yield own
    finally:
        log.warning("the engine said:\n%s", own.log())  # shown if the test fails
        own.end(signal.SIGTERM)
        _end_containerd(own.containerd)
        subprocess.run(["umount", "--recursive", "--quiet", folder / "data"], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _is_containerd(pid: Path) -> bool:
    try:
        process = psutil.Process(int(pid.read_text()))
        return process.name() == "containerd" and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.NoSuchProcess):
        return False


def _end_containerd(pid: Path) -> None:
    """A killed engine leaves it behind, and its successor does not end it."""
    if _is_containerd(pid):
        process = psutil.Process(int(pid.read_text()))
        process.terminate()
        process.wait()


async def bring_tools(room: Room, engine: Engine) -> None:
    """Takes the one image that is needed over from the machine's engine."""
    await ScriptedTools(room.docker, "").volume("")
    copy = f"docker save {TOOLS_IMAGE} | docker --host {engine.host} load -q"
    await asyncio.to_thread(subprocess.run, ["bash", "-o", "pipefail", "-c", copy], check=True)


async def test_containers_outlive_their_engine_and_no_end_is_missed(engine: Engine, tmp_path: Path) -> None:
    async with open_room(tmp_path) as machine:
        await until(engine.answers, 60.0)
        await bring_tools(machine, engine)
    (tmp_path / "own").mkdir()
    async with open_room(tmp_path / "own", engine.host) as room:
        room.watch()
        await room.start("ends-meanwhile", f"sleep 4; {DONE}", image=TOOLS_IMAGE)
        await room.start(
            "runs-on", f"say() {{ {DONE}; }}; trap 'say; exit 0' TERM; while :; do sleep 0.1; done", image=TOOLS_IMAGE
        )
        for name in ("ends-meanwhile", "runs-on"):
            await room.until(name, "run")
        engine.end(signal.SIGKILL)
        with pytest.raises(SandboxAway):
            await room.backend.present()
        await asyncio.sleep(5.0)
        before = len(room.told)
        engine.start()
        ended = await room.until("ends-meanwhile", "ended")
        assert ended.status is not None
        assert ended.status["phase"] == "done"
        await room.told_that(lambda seen: seen in room.told[before:] and (seen.name, seen.stage) == ("runs-on", "run"))
        await room.backend.end("runs-on", 10.0)
        assert (await room.until("runs-on", "ended")).status is not None
