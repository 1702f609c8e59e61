"""The runner as it is in a container, without the container: its work comes from a real proxy, by a unix socket or TCP."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fakeredis
import psutil
import pytest

from services.orchestrator.backends.port import Box
from services.orchestrator.backends.spawner import ROOT
from services.orchestrator.backends.tars import inflate
from services.orchestrator.backends.tars import unpack as unpack_untrusted
from services.orchestrator.depot import Depot, pack
from services.orchestrator.runner import leave
from services.orchestrator.runner.fetch import Refused, unpack
from services.orchestrator.runner.inside import unfit, with_image
from services.orchestrator.spec import PROXY, Copy, Phase, Spec, Status, Unpack
from services.proxy.service import ProxyService
from shared.bus.memory import MemoryBus
from shared.config import Config, EngineConfig, ProxyConfig, RunConfig
from shared.errors import SandboxError, StoreUnavailable, TaskError
from shared.store.blobs import Blobs
from shared.store.boxes import Boxes
from shared.store.sessions import Sessions
from tests.engine.scripted import ScriptedEngine
from tests.unit.orchestrator.house import KEY, RUN, until
from tests.unit.orchestrator.runners import isolation_of, showing

RUN_INSIDE = "import sys; sys.path.insert(0, sys.argv[1]); from services.orchestrator.runner.inside import main; main()"


class Depots:
    """A real proxy, its depot, and runners that fetch from it."""

    def __init__(self, proxy: ProxyService, depot: Depot, store: fakeredis.FakeAsyncRedis, top: Path) -> None:
        self.proxy, self.depot, self.store, self.top = proxy, depot, store, top
        self.address = f"unix:{top}/proxy.sock"

    def box(self, *phases: Phase, **packages: Path) -> Box:
        spec = Spec(
            status="", deadline_s=60.0, log_bytes=10_000, lease_s=0.0, grace_s=0.3, cgroups=[], rlimits={}, phases=list(phases)
        )  # fmt: skip
        return Box(name="r1-a1", labels={}, spec=spec, folder=self.top, packages=packages)

    def phase(self, name: str, script: str, **changes: Any) -> Phase:
        phase = Phase(
            name=name, user="", drops=False, fresh=[], own=[], copies=[], packages=[], files={}, executable=[],
            argv=["/bin/sh", "-c", script], env={"PATH": os.environ["PATH"]}, cwd=str(self.top / "app"),
            network="shared", relay="", timeout_s=20.0, idle_s=0.0, storage_mb=0, tries=0, interval_s=0.0, monitored=False,
            log="", collect=[],
        )  # fmt: skip
        phase.update(changes)  # type: ignore[typeddict-item]
        return phase

    @asynccontextmanager
    async def runner(self, ticket: str, *around: str, lease: str = "0") -> AsyncIterator[asyncio.subprocess.Process]:
        env = {"OPENFORGE_PROXY": self.address, "OPENFORGE_TICKET": ticket, "OPENFORGE_STATUS": str(self.top / "status")}
        env["OPENFORGE_LEASE"] = lease
        process = await asyncio.create_subprocess_exec(
            *around, sys.executable, "-I", "-S", "-c", RUN_INSIDE, ROOT, env=env, stdout=asyncio.subprocess.PIPE
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def run(self, box: Box, *around: str) -> tuple[Status, str]:
        """The status, which was told in two ways, and what was printed before it."""
        async with self.runner(await self.depot.put(box), *around) as process:
            printed, _ = await process.communicate()
        assert process.returncode == 0
        before, _, last = printed.decode().rstrip("\n").rpartition("\n")
        assert last == "OPENFORGE-STATUS " + (self.top / "status").read_text()
        status: Status = json.loads((self.top / "status").read_text())
        return status, before


@pytest.fixture
async def depots(scripted_engine: ScriptedEngine, open_folder: Path) -> AsyncIterator[Depots]:
    open_folder.chmod(0o777)
    store = fakeredis.FakeAsyncRedis()
    settings = ProxyConfig(socket=str(open_folder / "proxy.sock"))
    config = Config(run=RunConfig(id=RUN), engine=EngineConfig(url=scripted_engine.url), proxy=settings)
    kept = Sessions(store, RUN), Blobs(store, RUN), Boxes(store, RUN)
    proxy = ProxyService(config, MemoryBus(), *kept, control_key=KEY)
    await proxy.start()
    depot = Depot(ProxyConfig(control_port=int(proxy.control_url.rpartition(":")[2])), KEY, patience_s=5.0)
    yield Depots(proxy, depot, store, open_folder)
    await depot.close()
    await proxy.stop()


@pytest.fixture
def tests_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "tests"
    (folder / "data").mkdir(parents=True)
    (folder / "test.sh").write_text("#!/bin/sh\ncat data.txt > reward.txt\n")
    (folder / "test.sh").chmod(0o755)
    (folder / "data" / "link").symlink_to("../test.sh")
    return folder


async def test_agent_and_verifier_run_and_the_status_is_told_twice(depots: Depots, tests_dir: Path) -> None:
    seen = depots.top / "seen"
    agent = depots.phase("agent", f"echo said; ls {seen} 2>&1; echo 0.5 > data.txt; exit 3")
    verify = depots.phase(
        "verify", f"{seen}/test.sh", fresh=[str(seen)], packages=[Unpack(package="tests", target=str(seen))],
        collect=[str(depots.top / "app" / "reward.txt")],
    )  # fmt: skip
    status, printed = await depots.run(depots.box(agent, verify, tests=tests_dir))
    assert (status["phase"], status["error"]) == ("done", None)
    assert (status["phases"]["agent"]["exit_code"], status["phases"]["verify"]["collected"]) == (3, {"reward.txt": "0.5\n"})
    assert printed.startswith("--- agent ---\nsaid\nls: cannot access")
    assert "\n--- verify ---\n" in printed
    assert (seen / "data" / "link").read_text() == (tests_dir / "test.sh").read_text()


async def test_a_runner_whose_proxy_is_away_ends_with_the_lease(depots: Depots) -> None:
    depots.address = f"unix:{depots.top}/nobody.sock"
    async with depots.runner("ticket", lease="0.3") as process, asyncio.timeout(60):
        await process.communicate()
    status = json.loads((depots.top / "status").read_text())
    assert status["phase"] == "failed"
    assert "did not answer for 0.3 s" in status["error"]


async def test_what_a_sandbox_leaves_is_with_the_proxy_when_it_has_ended(depots: Depots, tmp_path: Path) -> None:
    app = depots.top / "app"
    script = "mkdir -p made/in; echo a > made/in/a; ln -s in/a made/link; chmod 000 made/in/a made/in; mkfifo pipe"
    box = depots.box(depots.phase("agent", script))
    box.spec["leaves"] = [f"{app}/made", f"{app}/none", f"{app}/pipe"]
    await depots.depot.put(box)
    with pytest.raises(StoreUnavailable, match=r"made is gone"):
        await depots.depot.left("r1-a1", f"{app}/made")
    status, printed = await depots.run(box)
    assert (status["phase"], status["error"]) == ("done", None)
    assert f"{app}/none is not handed over: No such file" in printed
    assert await depots.depot.left("r1-a1", f"{app}/none") == b""
    shown = taken(await depots.depot.left("r1-a1", f"{app}/made"), tmp_path / "out")
    assert (shown / "made/link").read_text() == "a\n"
    with pytest.raises(SandboxError, match="neither a file nor a folder"):
        taken(await depots.depot.left("r1-a1", f"{app}/pipe"), tmp_path / "pipe")


async def test_what_is_too_large_to_be_left_is_as_if_it_were_not_there(depots: Depots) -> None:
    app = depots.top / "app"
    box = depots.box(depots.phase("agent", "truncate -s 5G holes"))
    box.spec["leaves"] = [f"{app}/holes"]
    status, printed = await depots.run(box)
    assert (status["phase"], status["error"]) == ("done", None)
    assert f"{app}/holes is not handed over: it is larger than 4 GiB" in printed
    assert await depots.depot.left("r1-a1", f"{app}/holes") == b""


def test_no_more_is_packed_than_the_proxy_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some").write_bytes(os.urandom(100_000))
    sent: list[bytes] = []
    monkeypatch.setattr(leave, "LARGEST_LEFT", 200_000)
    leave.pack(str(tmp_path / "some"), sent.append)
    assert 100_000 < sum(map(len, sent)) < 110_000
    monkeypatch.setattr(leave, "LARGEST_LEFT", 50_000)
    with pytest.raises(leave.Unfit, match="larger than"):
        leave.pack(str(tmp_path / "some"), sent.append)


def taken(packed: bytes, target: Path) -> Path:
    """The folder that something which was left is unpacked to."""
    file = io.BytesIO()
    inflate(packed, file.write)
    file.seek(0)
    unpack_untrusted(file, target)
    return target


async def test_a_user_that_the_image_does_not_have_is_told_as_the_tasks_fault(depots: Depots) -> None:
    if os.geteuid():
        pytest.skip("only root gives folders to users")
    status, _ = await depots.run(depots.box(depots.phase("agent", "true", user="no-such-user", drops=True)))
    assert (status["phase"], status["of_task"]) == ("failed", True)
    assert "there is no user or group 'no-such-user'" in str(status["error"])


async def test_neither_ticket_nor_address_is_in_the_agents_environment(depots: Depots) -> None:
    _, printed = await depots.run(depots.box(depots.phase("agent", "env; cat /proc/$PPID/environ | tr '\\0' '\\n'")))
    assert "PATH=" in printed
    if os.geteuid() != 0:  # root reads everything; in a container it lacks the right to
        assert "OPENFORGE" not in printed


def as_first_process() -> list[str]:
    """What makes a program the first process of its own, as a user who is not root, as in a pod."""
    isolation = isolation_of("bubblewrap")
    user = [] if isolation.root else ["--unshare-user"]
    first = [isolation.bwrap, *user, "--unshare-pid", "--as-pid-1", "--bind", "/", "/", "--proc", "/proc"]
    return [*first, "--dev-bind", "/dev", "/dev", *showing(Path(ROOT)), "--die-with-parent", "--", *isolation.drop]


async def test_an_agent_of_its_own_user_can_neither_read_nor_trace_nor_end_a_containers_first_process(depots: Depots) -> None:
    script = (
        "echo pid $PPID; cat /proc/1/environ; ls /proc/1/fd; for s in TERM INT HUP USR1 KILL STOP; do kill -$s 1; done;"
        "(setsid sleep 600 &); sleep 0.3; echo still here"
    )
    verify = depots.phase("verify", "ps -A -o args= | grep -c '^sleep 600' ; true")
    status, printed = await depots.run(depots.box(depots.phase("agent", script), verify), *as_first_process())
    assert (status["phase"], status["error"], status["pid"]) == ("done", None, 1)
    assert status["phases"]["agent"]["exit_code"] == 0
    assert "pid 1\n" in printed
    assert "still here\n" in printed
    assert "OPENFORGE" not in printed
    assert printed.count("Permission denied") == 2
    assert printed.endswith("--- verify ---\n0\n")


async def test_sigterm_from_outside_ends_a_containers_first_process(depots: Depots) -> None:
    ticket = await depots.depot.put(depots.box(depots.phase("agent", "touch started; sleep 600")))
    async with depots.runner(ticket, *as_first_process()) as process:
        await until(lambda: (depots.top / "app" / "started").exists(), "the agent to run")
        (first,) = psutil.Process(process.pid).children()
        first.terminate()
        await process.communicate()
    assert json.loads((depots.top / "status").read_text())["phase"] == "cancelled"


async def test_the_relay_leads_to_the_proxy(depots: Depots) -> None:
    script = "exec 4<>/dev/tcp/127.0.0.1/8080; printf 'GET /v1/models HTTP/1.0\\r\\n\\r\\n' >&4; cat <&4"
    phase = depots.phase("agent", "", relay=PROXY, argv=["/bin/bash", "-c", script])
    status, printed = await depots.run(depots.box(phase))
    assert status["phase"] == "done"
    assert '"object":"list"' in printed


async def test_an_agent_without_a_call_is_ended_when_it_is_idle_for_too_long(depots: Depots) -> None:
    status, _ = await depots.run(depots.box(depots.phase("agent", "sleep 600", relay=PROXY, idle_s=0.3)))
    agent = status["phases"]["agent"]
    assert (status["phase"], agent["timed_out"], agent["limit"]) == ("done", True, "idle")


async def test_a_sandbox_that_nobody_waits_for_any_more_ends_itself(depots: Depots) -> None:
    box = depots.box(depots.phase("agent", "touch began; sleep 600", relay=PROXY, timeout_s=600.0), depots.phase("verify", ""))
    box.spec["lease_s"] = 0.5
    async with depots.runner(await depots.depot.put(box)) as process:
        await until(lambda: (depots.top / "app/began").exists(), "the agent to run")
        await asyncio.sleep(1.0)
        assert process.returncode is None  # the proxy is there
        await depots.proxy.stop()
        await asyncio.wait_for(process.communicate(), 20)
    status = json.loads((depots.top / "status").read_text())
    assert (status["phase"], status["phases"]) == ("failed", {})
    assert "nobody waits for this sandbox any more" in status["error"]


async def test_a_health_check_is_tried_until_it_succeeds(depots: Depots) -> None:
    check = depots.phase("health", "echo x >> tries; [ $(wc -l < tries) = 3 ]", tries=5, interval_s=0.01)
    status, _ = await depots.run(depots.box(check, depots.phase("agent", "cat tries")))
    assert (status["phase"], status["phases"]["health"]["exit_code"]) == ("done", 0)


async def test_a_health_check_that_never_succeeds_fails_the_attempt(depots: Depots) -> None:
    check = depots.phase("health", "exit 7", tries=2, interval_s=0.01)
    status, _ = await depots.run(depots.box(check, depots.phase("agent", "true")))
    assert (status["phase"], "agent" in status["phases"]) == ("failed", False)
    assert status["error"] == "health: not one of 2 tries succeeded; the last one ended with 7"


async def test_a_runner_that_hangs_ends_by_itself(depots: Depots, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    box = depots.box(depots.phase("agent", "echo", copies=[Copy(source=str(tmp_path), target=str(depots.top / "c"), skip=[])]))
    box.spec["deadline_s"] = 1.0
    status, _ = await asyncio.wait_for(depots.run(box), 20)
    assert (status["phase"], status["error"]) == ("failed", "agent: the runner did not end within 1 s")


async def test_sigterm_cancels(depots: Depots) -> None:
    ticket = await depots.depot.put(depots.box(depots.phase("agent", "touch started; sleep 600")))
    async with depots.runner(ticket) as process:
        await until(lambda: (depots.top / "app" / "started").exists(), "the agent to run")
        process.terminate()
        await process.communicate()
    assert json.loads((depots.top / "status").read_text())["phase"] == "cancelled"


async def test_a_wrong_ticket_fails_with_its_reason(depots: Depots) -> None:
    async with depots.runner("x" * 43) as process:
        await process.communicate()
    status = json.loads((depots.top / "status").read_text())
    assert (process.returncode, status["phase"]) == (0, "failed")
    assert "the proxy refused GET spec: HTTP 404" in status["error"]
    assert "x" * 43 not in status["error"]


async def test_a_proxy_that_comes_late_is_waited_for(depots: Depots) -> None:
    ticket = await depots.depot.put(depots.box(depots.phase("agent", "true")))
    real = Path(depots.address.removeprefix("unix:"))
    real.rename(real.with_suffix(".away"))
    async with depots.runner(ticket) as process:
        await asyncio.sleep(0.5)
        real.with_suffix(".away").rename(real)
        await process.communicate()
    assert json.loads((depots.top / "status").read_text())["phase"] == "done"


async def test_a_store_that_was_wiped_gets_the_packages_again(depots: Depots, tests_dir: Path) -> None:
    box = depots.box(depots.phase("agent", "true"), tests=tests_dir)
    ticket = await depots.depot.put(box)
    await depots.store.flushall()
    assert await depots.depot.put(box) == ticket
    assert (await depots.run(box))[0]["phase"] == "done"


async def test_a_package_is_uploaded_once_and_again_when_its_folder_changed(depots: Depots, tests_dir: Path) -> None:
    box = depots.box(depots.phase("agent", "true"), tests=tests_dir)
    for _ in range(3):
        await depots.depot.put(box)
    assert len(await depots.store.keys("*:package:*")) == 1
    (tests_dir / "test.sh").write_text("#!/bin/sh\n")
    await depots.depot.put(box)
    assert len(await depots.store.keys("*:package:*")) == 2


def test_the_same_content_is_the_same_package(tests_dir: Path, tmp_path: Path) -> None:
    before = pack(tests_dir)
    os.utime(tests_dir / "test.sh", (1, 1))
    assert pack(tests_dir) == before
    unpack(before, str(tmp_path / "copy"))
    assert pack(tmp_path / "copy") == before


def test_what_is_no_file_cannot_be_packed(tests_dir: Path) -> None:
    os.mkfifo(tests_dir / "fifo")
    with pytest.raises(TaskError, match="neither folder, file nor link"):
        pack(tests_dir)


def hostile(*members: tuple[str, str, str]) -> bytes:
    """A package with (name, type, link target) of each member."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind.encode(), link
            tar.addfile(info, io.BytesIO())
    return out.getvalue()


FILE, HARD, LINK, DEVICE = "0", "1", "2", "3"


@pytest.mark.parametrize(
    "members",
    [
        [("../out", FILE, "")], [("/out", FILE, "")], [("a/../../out", FILE, "")], [("dev", DEVICE, "")],
        [("hard", HARD, "/etc/hostname")], [("link", LINK, "/"), ("link/out", FILE, "")],
        [("link", LINK, ".."), ("link/out", FILE, "")],
    ],
)  # fmt: skip
def test_a_package_cannot_write_outside_of_its_folder(members: list[tuple[str, str, str]], tmp_path: Path) -> None:
    target = tmp_path / "in" / "target"
    with pytest.raises(Refused):
        unpack(hostile(*members), str(target))
    assert [p for p in tmp_path.rglob("out")] == []


@pytest.fixture
def image(tmp_path: Path) -> Callable[..., str]:
    """Makes a root folder with these files."""

    def make(*files: str) -> str:
        for file in files:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).touch()
        return str(tmp_path)

    return make


def test_a_musl_image_is_refused_when_the_harness_needs_glibc(image: Callable[..., str], tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text('{"name": "codex", "needs_glibc": true}')
    assert "codex needs an image with glibc; this one has musl" in unfit(image("lib/ld-musl-x86_64.so.1"), str(manifest))
    assert unfit(image("lib64/ld-linux-x86-64.so.2"), str(manifest)) == ""
    manifest.write_text('{"name": "react", "needs_glibc": false}')
    assert unfit(image(), str(manifest)) == ""


def test_what_an_image_sets_is_in_the_environment_and_what_is_the_sandboxes_is_not() -> None:
    image = {"MODE": "fast", "LANG": "de", "HOSTNAME": "x", "HOME": "/root", "OPENFORGE_TICKET": "t", "KUBERNETES_PORT": "1"}
    assert with_image({"LANG": "C"}, image) == {"MODE": "fast", "LANG": "C", "PATH": ""}


def test_programs_of_the_harness_are_found_first_then_the_images() -> None:
    env = {"PATH": "/openforge/node/bin:/usr/local/bin:/usr/bin:/bin"}
    image = {"PATH": "/opt/venv/bin:/usr/bin"}
    assert with_image(env, image)["PATH"] == "/openforge/node/bin:/opt/venv/bin:/usr/bin:/usr/local/bin:/bin"
    assert with_image(env, {}) == env
