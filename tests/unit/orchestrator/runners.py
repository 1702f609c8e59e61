"""Runner specs for tests: any shell script as the agent, in any kind of sandbox."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from services.dev.scratch import scratch
from services.orchestrator.backends.local import LocalBackend
from services.orchestrator.backends.port import Backend, Box, Seen
from services.orchestrator.cgroups import find_groups
from services.orchestrator.gateway import Endpoint
from services.orchestrator.harnesses import Launch, Request
from services.orchestrator.isolation import INSTALL
from services.orchestrator.plan import Attempt, plan
from services.orchestrator.sandbox import Isolation, Kind, copy_etc
from services.orchestrator.spec import Spec, Status
from shared.config import Config, OrchestratorConfig, ResourcesConfig, RunConfig
from shared.events import RolloutStart
from shared.roles import RoleRule
from shared.task import load_task

KINDS: tuple[Kind, ...] = ("bubblewrap", "uid", "process")
OTHER_UID = 65534
RUN = "run1"


def isolation_of(kind: Kind) -> Isolation:
    """Skips the test where the machine cannot give that kind; in CI a missing bubblewrap is an error."""
    root = os.geteuid() == 0
    if kind == "uid" and not root:
        pytest.skip("the kind 'uid' needs root")
    if kind == "process":
        return Isolation(kind, False, OTHER_UID)  # as root too: what runs here is the tests' own
    missing = kind == "bubblewrap" and shutil.which("bwrap") is None
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"bubblewrap is missing: {INSTALL}")
    if missing:
        pytest.skip(f"bubblewrap is missing: {INSTALL}")
    return Isolation(
        kind, root, OTHER_UID, shutil.which("bwrap") or "", etc=shown_etc(), network=kind == "bubblewrap", groups=find_groups()
    )


def showing(*folders: Path) -> list[str]:
    """Arguments of bubblewrap that let others reach folders and this Python, where they lie in a closed home."""
    wanted = (*folders, Path(sys.base_prefix), Path(sys.prefix))
    closed = {p for f in wanted for p in f.parents if not p.stat().st_mode & 0o001}
    tops = sorted(p for p in closed if not closed & set(p.parents))
    arguments = [part for top in tops for part in ("--tmpfs", str(top))]
    for folder in wanted:
        if closed & set(folder.parents) and not set(wanted) & set(folder.parents):
            # bubblewrap itself would make the folders in between closed to others
            made = [p for p in reversed(folder.parents) if set(tops) & set(p.parents)]
            arguments += [part for p in made for part in ("--dir", str(p))] + ["--ro-bind", str(folder), str(folder)]
    return arguments


@cache
def shown_etc() -> str:
    """What sandboxes of all tests see as /etc."""
    ends = ExitStack()
    atexit.register(ends.close)
    folder = ends.enter_context(scratch())
    folder.chmod(0o755)
    copy_etc(folder / "etc")
    return f"{folder}/etc"


@dataclass(frozen=True)
class Shell:
    """A harness whose agent is a shell script."""

    script: str
    read_only: Sequence[Path] = ()

    def roles(self) -> list[RoleRule]:
        return []

    def launch(self, request: Request) -> Launch:
        return Launch(("/bin/sh", "-c", self.script), {"BASE": request.base_url}, {"note": "home\n"}, tuple(self.read_only))


@dataclass
class Bench:
    """Runs attempts of one task in one kind of sandbox; `open_folder` is reachable for other users."""

    isolation: Isolation
    task: Path
    root: Path
    open_folder: Path
    proxy: str = "http://127.0.0.1:9/run/k"
    resources: dict[str, int] = field(default_factory=dict)
    network: Literal["none", "task"] = "none"

    @property
    def records(self) -> Path:
        """What is kept of the attempts."""
        return self.root / RUN / "rollouts"

    @property
    def sandboxes(self) -> Path:
        """The folder of all sandboxes."""
        return self.open_folder / f"openforge-{RUN}"

    def spec(
        self,
        script: str,
        session: str = "r1-a1",
        *,
        timeout_s: float = 20,
        verifier_timeout_s: float = 20,
        grace_s: float = 0.3,
        log_bytes: int = 100_000,
        read_only: Sequence[Path] = (),
    ) -> Spec:
        start = RolloutStart(
            run_id=RUN,
            rollout_id="r1",
            group_id="g1",
            group_size=1,
            task_dir=str(self.task),
            harness="shell",
            timeout_s=timeout_s,
        )
        record = self.records / session
        record.mkdir(parents=True, exist_ok=True)
        attempt = Attempt(
            start,
            load_task(self.task),
            Shell(script, read_only),
            self.isolation,
            self.sandboxes / session,
            record,
            Endpoint(self.proxy, "k"),
            {},
            600.0,
        )
        resources = ResourcesConfig(**self.resources)
        settings = OrchestratorConfig(verifier_timeout_s=verifier_timeout_s, resources=resources, network=self.network)
        spec = plan(attempt, Config(orchestrator=settings))
        spec["grace_s"], spec["log_bytes"] = grace_s, log_bytes
        return spec

    def box(self, script: str, session: str = "r1-a1", **changes: Any) -> Box:
        return self._box(self.spec(script, session, **changes), session)

    def _box(self, spec: Spec, session: str = "r1-a1") -> Box:
        labels = {"run": RUN, "rollout": "r1", "group": "g1", "task": "t", "harness": "shell"}
        return Box(session, labels, spec, self.records / session)

    async def backend(self) -> LocalBackend:
        """A backend that knows nothing of the runners of others."""
        orchestrator = OrchestratorConfig(work_root=str(self.open_folder))
        backend = LocalBackend(Config(run=RunConfig(id=RUN, root=str(self.root)), orchestrator=orchestrator), self.isolation)
        await backend.open()
        self.sandboxes.chmod(0o711)  # for programs that a test lets become somebody else
        return backend

    async def run(self, script: str, **changes: Any) -> Status:
        return await self.carry_out(self.spec(script, **changes))

    async def carry_out(self, spec: Spec) -> Status:
        """What the runner of a spec tells in the end."""
        backend = await self.backend()
        await backend.start(self._box(spec))
        status = (await ended(backend)).status
        await backend.close()
        assert status is not None
        return status

    def status(self, session: str = "r1-a1") -> Status | None:
        """What the runner has told so far."""
        path = self.records / session / "status.json"
        return msgspec.json.decode(path.read_bytes(), type=Status) if path.exists() else None

    def log(self, name: str, session: str = "r1-a1") -> str:
        return (self.records / session / f"{name}.log").read_text()

    def inside(self, path: str, session: str = "r1-a1") -> Path:
        """A file of the sandbox."""
        return self.sandboxes / session / path


async def ended(backend: Backend, session: str = "r1-a1") -> Seen:
    """How a sandbox ended."""
    async for seen in backend.watch():
        if seen.name == session and seen.stage == "ended":
            return seen
    raise AssertionError("watching does not end")


def processes_with(text: str) -> list[int]:
    """Pids of the processes whose command line holds `text`."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and text.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
