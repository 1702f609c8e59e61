"""The backend for Kubernetes on a real node: kubelet, containerd, runc."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.orchestrator.backends.kubernetes.backend import KubernetesBackend
from services.orchestrator.backends.port import Box, Resources, Seen
from shared.errors import AgentMemory, AgentStorage, ForgeError, ImageError, SandboxError
from tests.kube.boxes import DONE, box
from tests.kube.fixtures import DO, REAL, MakeBackend
from tests.kube.images import HARNESS, TASK
from tests.kube.watched import ends, heard, running

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("real_node"),
]

WORK = "/srv/work"
SAY_DONE = f"echo '{DONE}' > /dev/termination-log"
WAIT = "sleep 600 & wait"
SMALL = Resources(cpus=0.1, memory_mb=64)


def doing(script: str, name: str = "s1", **fields: Any) -> Box:
    """A sandbox whose runner does that."""
    asked = box(name, **{"workdir": WORK, "image": TASK, "resources": SMALL, **fields})
    return replace(asked, labels={**asked.labels, DO: script})


@pytest.fixture
async def backend(make_backend: MakeBackend) -> KubernetesBackend:
    made = make_backend(harness_image=HARNESS, pull_policy="Never", node_selector=REAL)
    await made.open()
    return made


async def ended(backend: KubernetesBackend, asked: Box) -> Seen:
    """How it ends."""
    async with heard(backend) as told:
        await backend.start(asked)
        return ends(await told(lambda all_: asked.name in ends(all_)))[asked.name]


async def runs(backend: KubernetesBackend, asked: Box) -> None:
    async with heard(backend) as told:
        await backend.start(asked)
        await told(lambda all_: asked.name in running(all_))


async def test_what_it_printed_and_its_status_outlive_it(backend: KubernetesBackend) -> None:
    seen = await ended(backend, doing(f"echo hello; {SAY_DONE}"))
    assert seen.status is not None
    assert (seen.status["phase"], seen.where) == ("done", "localhost")
    assert await backend.logs("s1") == b"hello\n"
    await backend.remove("s1")
    assert await backend.logs("s1") == b""


async def test_nobody_in_it_is_root_and_the_working_folder_can_be_written(backend: KubernetesBackend) -> None:
    script = (
        "id -u; id -g; pwd; cat given.txt .hidden folder/inner.txt;"
        "echo new > folder/inner.txt && rm given.txt && echo written;"
        "touch /openforge/x || echo sealed; ls /var/run/secrets/kubernetes.io || echo no token;"
        "for f in /tmp /logs /tests /home/agent; do touch $f/x && echo $f; done"
    )
    await ended(backend, doing(script))
    words = (await backend.logs("s1")).decode().splitlines()
    lines = [line for line in words if not line.startswith(("touch:", "ls:"))]
    assert lines == [
        "65534", "65534", WORK, "given", "hidden", "inner", "written", "sealed", "no token",
        "/tmp", "/logs", "/tests", "/home/agent",
    ]  # fmt: skip


async def test_a_task_that_asks_for_root_is_root_with_few_rights(backend: KubernetesBackend) -> None:
    await ended(backend, doing("id -u; touch /srv/work/x && echo written; cat /proc/self/status", user="root"))
    words = (await backend.logs("s1")).decode()
    assert words.startswith("0\nwritten\n")
    assert "NoNewPrivs:\t1" in words
    assert "Seccomp:\t2" in words
    assert "CapEff:\t00000000000000fb" in words


async def test_a_command_in_it_gives_its_exit_code_and_both_outputs(backend: KubernetesBackend) -> None:
    await runs(backend, doing(WAIT))
    ran = await backend.run("s1", ["/bin/sh", "-c", "id -u; pwd; echo bad >&2; exit 3"], 20.0)
    assert ran.exit_code == 3
    assert sorted(ran.output.split()) == sorted(b"65534 /srv/work bad".split())
    assert (await backend.run("s1", ["/no/such"], 20.0)).exit_code == 127


async def test_a_command_that_does_not_end_in_time_is_killed(backend: KubernetesBackend) -> None:
    await runs(backend, doing(WAIT))
    with pytest.raises(SandboxError, match="did not end within 1 s"):
        await backend.run("s1", ["/bin/sh", "-c", "sleep 4321 & sleep 4322"], 1.0)
    ran = await backend.run("s1", ["/bin/ps", "ax"], 20.0)
    assert b"sleep 600" in ran.output
    assert b"sleep 432" not in ran.output


async def test_files_go_in_and_come_out_as_they_were(backend: KubernetesBackend, tmp_path: Path) -> None:
    await runs(backend, doing(WAIT))
    source, target = tmp_path / "in", tmp_path / "out"
    (source / "sub").mkdir(parents=True)
    blob = bytes(range(256)) * 16384
    (source / "blob").write_bytes(blob)
    (source / "sub/script").write_text("#!/bin/sh\n")
    (source / "sub/script").chmod(0o755)
    await backend.copy_in("s1", source, "/tmp/new/deep")
    await backend.copy_out("s1", "/tmp/new/deep", target)
    assert (target / "deep/blob").read_bytes() == blob
    assert (target / "deep/sub/script").stat().st_mode & 0o100
    with pytest.raises(SandboxError, match="No such file"):
        await backend.copy_out("s1", "/tmp/none", target)


async def test_what_would_land_outside_is_not_copied_out(backend: KubernetesBackend, tmp_path: Path) -> None:
    await runs(backend, doing(f"mkdir /tmp/d; ln -s /etc/passwd /tmp/d/link; {WAIT}"))
    with pytest.raises(SandboxError):
        await backend.copy_out("s1", "/tmp/d", tmp_path / "out")


async def test_one_that_is_asked_to_end_may_leave_its_status(backend: KubernetesBackend) -> None:
    words = DONE.replace("done", "cancelled")
    async with heard(backend) as told:
        await backend.start(
            doing(
                f"echo said; leave() {{ echo '{words}' > /dev/termination-log; echo 'OPENFORGE-STATUS {words}'; exit 0; }};"
                f"trap leave TERM; {WAIT}"
            )
        )
        await told(lambda all_: "s1" in running(all_))
        await backend.end("s1", 10.0)
        seen = ends(await told(lambda all_: "s1" in ends(all_)))["s1"]
    assert seen.status is not None
    assert seen.status["phase"] == "cancelled"
    assert (await backend.logs("s1")).startswith(b"said\n")
    assert [each.status for each in await backend.present()] == [seen.status]


async def test_one_that_does_not_listen_is_killed_after_its_grace(backend: KubernetesBackend) -> None:
    async with heard(backend) as told:
        await backend.start(doing("trap '' TERM; sleep 600; sleep 600"))
        await told(lambda all_: "s1" in running(all_))
        asked = time.monotonic()
        await backend.end("s1", 2.0)
        assert time.monotonic() - asked < 2.0
        error = ends(await told(lambda all_: "s1" in ends(all_)))["s1"].error
    assert "asked to end" in str(error)
    assert time.monotonic() - asked < 30.0
    assert [seen.stage for seen in await backend.present()] == ["ended"]


async def test_one_that_still_runs_can_be_cleared_away(backend: KubernetesBackend) -> None:
    await runs(backend, doing(WAIT))
    await backend.remove("s1")
    assert await backend.present() == []
    with pytest.raises(SandboxError):
        await backend.run("s1", ["/bin/true"], 10.0)


BAD: list[tuple[dict[str, Any], type[ForgeError], str]] = [
    ({"script": "dd if=/dev/zero of=/dev/null bs=200M count=9"}, AgentMemory, "memory"),
    # It counts from when the node has the pod: on a busy machine its runner runs some seconds later.
    ({"script": "sleep 600", "deadline_s": 12.0}, SandboxError, "12 s after it began"),
    ({"script": "exit 5"}, SandboxError, "exit code 5"),
    ({"script": "", "image": "localhost/none:1"}, ImageError, "ErrImageNeverPull"),
    ({"script": "", "image": "Not An Image"}, ImageError, "InvalidImageName"),
    ({"script": "kill -9 $$; exit 0"}, SandboxError, ""),
]


@pytest.mark.parametrize(("fields", "kind", "word"), BAD, ids=["memory", "deadline", "exit", "never", "name", "status"])
async def test_what_goes_wrong_is_told_with_its_type(
    backend: KubernetesBackend, fields: dict[str, Any], kind: type[ForgeError], word: str
) -> None:
    seen = await ended(backend, doing(**fields))
    assert type(seen.error) is kind
    assert word in str(seen.error)


async def test_a_pod_that_writes_more_than_it_may_is_put_out_for_its_own_sake(backend: KubernetesBackend) -> None:
    small = replace(SMALL, storage_mb=16)
    seen = await ended(backend, doing(f"dd if=/dev/zero of=/srv/x bs=1M count=40; {WAIT}", user="root", resources=small))
    assert isinstance(seen.error, AgentStorage)
    assert "exceed" in str(seen.error)


async def test_an_image_that_cannot_be_pulled_is_told_at_once(make_backend: MakeBackend) -> None:
    made = make_backend(harness_image="127.0.0.1:1/none:1", node_selector=REAL)
    await made.open()
    began = time.monotonic()
    seen = await ended(made, doing(""))
    assert isinstance(seen.error, ImageError)
    assert "127.0.0.1:1/none:1" in str(seen.error)
    assert time.monotonic() - began < 30.0


async def test_a_program_that_is_not_there_is_told(make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.kube.fixtures.ENTRY", ("/openforge/none",))
    made = make_backend(harness_image=HARNESS, pull_policy="Never", node_selector=REAL)
    await made.open()
    seen = await ended(made, doing(""))
    assert isinstance(seen.error, ImageError)
    assert "/openforge/none" in str(seen.error)


async def test_many_at_once_each_end_once(backend: KubernetesBackend) -> None:
    names = {f"s{n}" for n in range(12)}
    async with heard(backend) as told:
        await asyncio.gather(*(backend.start(doing(SAY_DONE, name, resources=Resources(0.01, 16))) for name in sorted(names)))
        news = await told(lambda all_: set(ends(all_)) == names)
    assert all(seen.status for seen in ends(news).values())
    assert sum(seen.stage == "ended" for seen in news) == len(names)
