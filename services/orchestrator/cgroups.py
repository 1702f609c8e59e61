"""Which control groups this machine lets us make, and what goes into those of a sandbox. What is not to be had is said."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from services.orchestrator.backends.port import Resources
from services.orchestrator.spec import Cgroup

_PERIOD_US = 100_000
_WANTED = ("memory", "pids", "cpu", "cpuacct")
_PREFIX = "openforge-"
_YOUNG_S = 60.0


@dataclass(frozen=True, slots=True)
class Groups:
    """Control groups that can be made.

    Attributes:
        parents: folder to make them in, by controller; one folder may serve several.
        unified: they are of version 2.
    """

    parents: Mapping[str, str] = field(default_factory=dict)
    unified: bool = False

    def plan(self, name: str, resources: Resources) -> list[Cgroup]:
        """The groups of a sandbox."""
        settings = self._settings(resources)
        found: dict[str, dict[str, str]] = {}
        for controller, parent in self.parents.items():
            found.setdefault(parent, {}).update(settings.get(controller, {}))
        return [Cgroup(folder=f"{parent}/{_PREFIX}{name}", settings=own) for parent, own in found.items()]

    def sweep(self) -> None:
        """Removes groups in which nothing runs any more, of any run: their runners were killed. A young one may just not have
        been moved into."""
        old = time.time() - _YOUNG_S
        for parent in set(self.parents.values()):
            for folder in Path(parent).glob(f"{_PREFIX}*"):
                with suppress(OSError):  # something still runs in it, or somebody else was faster
                    if folder.stat().st_ctime < old:
                        folder.rmdir()

    def _settings(self, resources: Resources) -> dict[str, dict[str, str]]:
        memory, pids, cpus = resources.memory_mb, resources.pids, resources.cpus
        told: dict[str, dict[str, str]] = {}
        if memory:
            limit = str(memory << 20)
            told["memory"] = {"memory.max": limit, "memory.swap.max": "0"} if self.unified else {"memory.limit_in_bytes": limit}
        if pids:
            told["pids"] = {"pids.max": str(pids)}
        if cpus:
            quota = round(cpus * _PERIOD_US)
            told["cpu"] = {"cpu.max": f"{quota} {_PERIOD_US}"} if self.unified else {"cpu.cfs_quota_us": str(quota)}
        return told


def rlimits(groups: Groups, resources: Resources, users: int) -> dict[str, int]:
    """Limits of single processes, in the place of groups that are not to be had.

    Args:
        groups: that are.
        resources: of a sandbox.
        users: sandboxes whose processes are counted together, because one user runs them.
    """
    limits = {"CORE": 0}
    if resources.memory_mb and "memory" not in groups.parents:
        limits["DATA"] = resources.memory_mb << 20
    if resources.pids and "pids" not in groups.parents:
        limits["NPROC"] = resources.pids * users
    if resources.storage_mb:
        limits["FSIZE"] = resources.storage_mb << 20
    return limits


def find_groups(cgroup: str | None = None, mounts: str | None = None) -> Groups:
    """What can be made here, found out by making one.

    Args:
        cgroup, mounts: what /proc/self/cgroup and /proc/self/mountinfo say; read by default.
    """
    cgroup = _read("/proc/self/cgroup") if cgroup is None else cgroup
    mounts = _read("/proc/self/mountinfo") if mounts is None else mounts
    parents = {c: folder for c, folder in _version_1(cgroup, mounts).items() if _can_make(folder)}
    if "memory" in parents or "pids" in parents:
        return Groups(parents)
    for folder in _version_2(cgroup, mounts):
        if controllers := set(_can_make(folder).split()) & set(_WANTED):
            return Groups(dict.fromkeys(sorted(controllers), folder), unified=True)
    return Groups()


def said(groups: Groups, root: bool) -> str:
    """One line on what holds a sandbox within its limits."""
    version = 2 if groups.unified else 1
    held = [f"{what} (control group v{version})" for what in ("memory", "pids", "cpu") if what in groups.parents]
    if "memory" not in groups.parents:
        held.append("memory (of each single process)")
    if "pids" not in groups.parents:
        held.append("processes (of all sandboxes together)" if root else "processes (of its user)")
    free = [] if "cpu" in groups.parents else ["cpu"]
    return f"sandboxes are held within limits of {', '.join(held)}" + (f"; not of {', '.join(free)}" if free else "")


def _version_1(cgroup: str, mounts: str) -> dict[str, str]:
    """Folder of this process by controller."""
    paths = {c: path for line in cgroup.splitlines() for _, names, path in [line.split(":", 2)] for c in names.split(",")}
    found = {}
    for root, point, kind, options in _mounted(mounts):
        for controller in _WANTED if kind == "cgroup" else ():
            if controller in options.split(",") and controller in paths:
                found[controller] = _below(point, root, paths[controller])
    return found


def _version_2(cgroup: str, mounts: str) -> list[str]:
    """Folder of this process, and the one above, which its owner may have been given whole: groups that hold processes cannot
    have limited ones below them."""
    path = next((line.split(":", 2)[2] for line in cgroup.splitlines() if line.startswith("0::")), None)
    found = [_below(point, root, path) for root, point, kind, _ in _mounted(mounts) if kind == "cgroup2" and path is not None]
    return [folder for own in found[:1] for folder in (own, os.path.dirname(own))]


def _mounted(mounts: str) -> list[tuple[str, str, str, str]]:
    """Root, mount point, kind of file system and its options, of every mount."""
    found = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        found.append((before.split()[3], before.split()[4], kind, options))
    return found


def _below(point: str, root: str, path: str) -> str:
    relative = os.path.relpath(path, root)
    return point if relative == "." or relative.startswith("..") else os.path.join(point, relative)


def _can_make(folder: str) -> str:
    """Makes a group for a moment; gives its controllers (version 1: something), or nothing when it cannot be made."""
    trial = Path(folder, f"{_PREFIX}trial-{os.getpid()}")
    try:
        trial.mkdir()
    except OSError:
        return ""
    try:
        controllers = trial / "cgroup.controllers"
        return controllers.read_text() if controllers.exists() else "one"
    finally:
        trial.rmdir()


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
