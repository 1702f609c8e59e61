"""What it costs to start a local sandbox: from asking for it to its agent's first word, against bubblewrap alone.

    python -m tests.bench.sandbox [--rounds 40]

Prints JSON, see `Figures`. They take turns, so that a machine that slows down slows both.

Both go from the request to the program's first word. Bubblewrap alone is what one would write by hand for that: a root with a
read-only /usr, /proc, /dev, /tmp and one folder of the machine; namespaces of its own for processes, network, IPC, host name
and control groups; if root starts it, setpriv to another user. Ours has five folders more, an /etc, limits, a relay. What the
runner server does before it is asked (it forks one runner ahead) is in neither.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from services.orchestrator.backends.spawner import Spawner
from services.orchestrator.gateway import Endpoint
from services.orchestrator.harnesses import Launch, Request
from services.orchestrator.isolation import resolve_isolation
from services.orchestrator.plan import Attempt, plan
from services.orchestrator.sandbox import Isolation, copy_etc
from shared.config import Config, OrchestratorConfig
from shared.events import RolloutStart
from shared.roles import RoleRule
from shared.task import load_task

_SYSTEM = ("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
           "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # fmt: skip
_UNSHARE = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_TASK = {"task.toml": "", "instruction.md": "Say a word.\n", "tests/test.sh": "#!/bin/sh\n"}


@dataclass(frozen=True)
class Figures:
    """Medians in milliseconds, and how many times as long ours takes; the same of the fastest starts, which a busy machine
    disturbs less."""

    sandbox_p50_ms: float
    bwrap_p50_ms: float
    ratio: float
    sandbox_best_ms: float
    bwrap_best_ms: float
    best_ratio: float


@dataclass(frozen=True)
class _Speaker:
    """A harness whose agent says a word into a named pipe."""

    pipe: Path

    def roles(self) -> list[RoleRule]:
        return []

    def launch(self, request: Request) -> Launch:
        return Launch(("/bin/sh", "-c", f"echo > {self.pipe}"), {}, {}, (self.pipe.parent,))


class Starts:
    """Starts sandboxes one after another, in folders of its own."""

    def __init__(self, stack: ExitStack) -> None:
        self._top = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._top.chmod(0o755)
        self._pipe = self._top / "pipe" / "word"
        self._pipe.parent.mkdir(mode=0o755)
        os.mkfifo(self._pipe)
        self._pipe.chmod(0o666)
        for path, text in _TASK.items():
            (self._top / "task" / path).parent.mkdir(parents=True, exist_ok=True)
            (self._top / "task" / path).write_text(text)
        copy_etc(self._top / "etc")
        self._isolation = replace(resolve_isolation(OrchestratorConfig(sandbox="bubblewrap")), etc=str(self._top / "etc"))
        self._spawner = Spawner(self._isolation.network)
        stack.callback(self._spawner.close)
        self._count = 0

    @property
    def isolation(self) -> Isolation:
        """What they are made with."""
        return self._isolation

    def ours(self) -> float:
        """Milliseconds from asking the runner server for a runner to the agent's word; the plan is made beforehand."""
        self._count += 1
        record = self._top / "records" / f"r{self._count}-a1"
        record.mkdir(parents=True)
        spec = record / "spec.json"
        spec.write_bytes(msgspec.json.encode(plan(self._attempt(record), Config())))
        log = os.open(record / "runner.log", os.O_WRONLY | os.O_CREAT, 0o600)
        pid = 0

        def start() -> None:
            nonlocal pid
            pid = self._spawner.spawn(spec, log)

        took = self._timed(start)
        os.close(log)
        _wait(pid)
        return took

    def bare(self) -> float:
        """The same of bubblewrap with nothing around it."""
        own = self._isolation
        unshare = _UNSHARE if own.root else ("--unshare-all",)  # in a user namespace root could not become somebody else
        argv = [own.bwrap, *unshare, "--die-with-parent", *_SYSTEM, "--bind", str(self._pipe.parent), "/pipe"]
        argv += ["--", *own.drop, "/bin/sh", "-c", "echo > /pipe/word"]
        started: list[subprocess.Popen[bytes]] = []
        took = self._timed(lambda: started.append(subprocess.Popen(argv)))
        started[0].wait()
        return took

    def _timed(self, start: Callable[[], None]) -> float:
        began = time.perf_counter()
        start()
        with self._pipe.open("rb") as pipe:
            pipe.read(1)
            return 1000 * (time.perf_counter() - began)

    def _attempt(self, record: Path) -> Attempt:
        task = self._top / "task"
        start = RolloutStart(
            run_id="bench", rollout_id=record.name, group_id="g1", group_size=1, task_dir=str(task), harness="speaker"
        )  # fmt: skip
        place = self._top / "sandboxes" / record.name
        endpoint = Endpoint("http://127.0.0.1:9/run/k", "k")
        return Attempt(start, load_task(task), _Speaker(self._pipe), self._isolation, place, record, endpoint, {}, 600.0)


def measure(rounds: int) -> Figures:
    """Starts so many of each."""
    with ExitStack() as stack:
        starts = Starts(stack)
        starts.ours(), starts.bare()  # the first pays for the runner server
        pairs = [(starts.ours(), starts.bare()) for _ in range(rounds)]
    figures: list[float] = []
    for of in (statistics.median, min):
        ours, bare = (of(column) for column in zip(*pairs, strict=True))
        figures += [round(ours, 2), round(bare, 2), round(ours / bare, 2)]
    return Figures(*figures)


def _wait(pid: int) -> None:
    """Until a runner, no child of ours, has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([pidfd], [], [])
    os.close(pidfd)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="starts of each (default: %(default)s)")
    figures = measure(parser.parse_args().rounds)
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")


if __name__ == "__main__":
    main()
