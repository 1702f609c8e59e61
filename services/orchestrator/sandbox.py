"""The kinds of sandbox: how each shows the rollout's folders to a program, and the command line that makes it so.

A sandbox folder holds `app`, `logs/{agent,artifacts,verifier}`, `tests`, and a `home` and a `tmp` for each phase.
`bubblewrap` mounts them at Harbor's absolute paths, with nothing else of the machine but a read-only /usr; `uid` and `process`
leave them where they are, so programs find them by the variables APP_DIR, LOGS_DIR and TESTS_DIR (set in every kind). In a
`container` they are at Harbor's paths too; what isolates it is somebody else's work.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Literal

from services.orchestrator.cgroups import Groups
from services.orchestrator.runner.start import MARK_FD
from shared.errors import HarnessError, TaskError

Kind = Literal["bubblewrap", "uid", "process", "container"]
PhaseName = Literal["agent", "verify"]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME = "/home/agent"
GIT_DATE = "2026-01-01T00:00:00Z"
"""Of every commit, so that it has the same name in all rollouts of a group. What a task says in its own `env` holds instead."""
SOLUTION = "solution"
"""Folder of the home folder that a task's solution is put into, for the one harness that gets it."""
ETC = ("alternatives", "ca-certificates", "fonts", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "mime.types",
       "nsswitch.conf", "pki", "protocols", "resolv.conf", "services", "ssl")  # fmt: skip
"""What /etc shows inside: name resolution, certificates, fonts, the loader; no accounts of the machine."""
TAKEN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev", "/sys", "/logs", "/tests")

_NAMESPACES = (
    "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent",
    "--new-session",
)  # fmt: skip
_KERNEL = ("--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm")

_STAND = ("--block-fd", str(MARK_FD))
"""Has bubblewrap take the runner's mark once everything is mounted, just before the program starts."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders of one phase; on the host, or as its program sees them."""

    app: str
    logs: str
    tests: str
    home: str
    tmp: str


@dataclass(frozen=True, slots=True)
class Isolation:
    """What sandboxes are made with.

    Attributes:
        kind: of sandbox.
        root: the orchestrator is root; programs then always run as another user. (A namespace alone would not do: a process
            that is root outside of it may write kernel settings under /proc/sys.)
        uid: user and group id that programs run as; of no meaning in the kind `process`.
        bwrap, setpriv: programs.
        etc: folder that bubblewrap shows as /etc (see `copy_etc`).
        network: sandboxes can have a network of their own, in which only the proxy is reached.
        groups: control groups that they can have.
    """

    kind: Kind
    root: bool
    uid: int
    bwrap: str = "/usr/bin/bwrap"
    setpriv: str = "/usr/bin/setpriv"
    etc: str = ""
    network: bool = False
    groups: Groups = field(default_factory=Groups)

    @property
    def owner(self) -> str:
        """Who the folders of a sandbox must belong to; empty: they stay the orchestrator's own."""
        return str(self.uid) if self.root else ""

    @property
    def drop(self) -> list[str]:
        """What to put before a command so that it runs as the owner, without rights, and dies with its parent."""
        if not self.root:
            return []
        who = ["--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"]
        return [self.setpriv, *who, "--inh-caps=-all", "--no-new-privs", "--pdeathsig", "KILL", "--"]

    def check_readable(self, folders: Sequence[Path]) -> None:
        """Looks whether programs in `folders` can be started by the user that they will run as.

        Raises:
            HarnessError: a folder is closed to other users.
        """
        for folder in folders if self.root and self.kind != "container" else ():
            passed = (folder, *folder.parents) if self.kind == "uid" else (folder,)  # bubblewrap makes the parents anew
            closed = next((p for p in passed if not p.stat().st_mode & 0o001), None)
            if closed:
                raise HarnessError(
                    f"{folder} cannot be read by the user {self.uid} that rollouts run as: {closed} is closed to others; "
                    "open it, or set OPENFORGE_CACHE to a folder that is open and install again"
                )


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One rollout's sandbox.

    Attributes:
        isolation: what it is made with.
        folder: its place on the machine.
        workdir: working folder as the task wants it; only `bubblewrap` can give it that name.
    """

    isolation: Isolation
    folder: Path
    workdir: str

    def host(self, phase: PhaseName) -> Folders:
        """Where a phase's folders lie on the machine; in a container, where its runner finds them."""
        if self.isolation.kind == "container":
            return self.seen(phase)
        top, own = self.folder, self.folder / phase
        return Folders(f"{top}/app", f"{top}/logs", f"{top}/tests", f"{own}/home", f"{own}/tmp")

    def seen(self, phase: PhaseName) -> Folders:
        """Where a phase's program finds its folders.

        Raises:
            TaskError: the task wants its working folder where the sandbox has something else.
        """
        if self.isolation.kind in ("uid", "process"):
            return self.host(phase)
        contained = self.isolation.kind == "container"  # its image may have a working folder such as /usr/src/app
        taken = self.workdir in ("/", *TAKEN) if contained else any(_within(self.workdir, taken) for taken in TAKEN)
        if taken or ".." in PurePosixPath(self.workdir).parts:
            raise TaskError(
                f"environment.workdir {self.workdir!r} cannot be a working folder in a sandbox; use one such as /app"
            )
        return Folders(self.workdir, "/logs", "/tests", HOME, "/tmp")

    def path_of(self, path: str, folders: Folders | None = None) -> str:
        """Where something lies that is at `path` by the format: in the working folder, /logs, the home or temporary folder.

        Args:
            path: absolute.
            folders: where it is asked for; as the agent's program sees them by default.
        """
        there = folders or self.seen("agent")
        tops = ((self.workdir, there.app), ("/logs", there.logs), (HOME, there.home), ("/tmp", there.tmp))
        return next((place + path[len(top) :] for top, place in tops if _within(path, top)), path)

    def env(self, phase: PhaseName) -> dict[str, str]:
        """The environment that every program starts from: minimal, and the same wherever it runs."""
        seen = self.seen(phase)
        return {
            "PATH": PATH, "HOME": seen.home, "USER": "agent", "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0",
            "GIT_AUTHOR_DATE": GIT_DATE, "GIT_COMMITTER_DATE": GIT_DATE,
            "TERM": "dumb", "TMPDIR": seen.tmp, "APP_DIR": seen.app, "LOGS_DIR": seen.logs, "TESTS_DIR": seen.tests,
        }  # fmt: skip

    def command(
        self, phase: PhaseName, program: Sequence[str], read_only: Sequence[Path] = (), solution: bool = False,
        followed: bool = True, files: Sequence[tuple[str, str]] = (),
    ) -> list[str]:  # fmt: skip
        """The command line that runs `program` (absolute, as seen inside) in the sandbox.

        `read_only` are further folders of the machine that it needs; they are shown at their own paths. With `solution` it
        finds the task's solution at /solution too. One that is not `followed` has no mark of its runner's to take. `files` of
        the machine are shown, and can be written, where the second path says, in a folder that every sandbox has.
        """
        drop = [] if self.isolation.kind == "container" else self.isolation.drop
        inner = [*drop, *program]
        if self.isolation.kind != "bubblewrap":
            return inner
        own = [("--bind", source, target) for source, target in self._mounts(phase)]
        shown = [("--ro-bind", str(path), str(path)) for path in read_only if not path.is_relative_to("/usr")]
        stand = _STAND if followed else ()
        argv = [self.isolation.bwrap, *self._user(), *_NAMESPACES, *stand, *_system(), *_KERNEL]
        argv += ["--ro-bind", self.isolation.etc, "/etc", *chain.from_iterable(("--bind", *file) for file in files)]
        for mounts in (own, shown):  # in this order: a program may lie under a folder of the machine's /tmp
            for folder in _parents([target for _, _, target in mounts]):
                argv += ["--perms", "0755", "--dir", folder]  # those that bubblewrap makes by itself are closed to others
            argv += chain.from_iterable(mounts)
        if solution:
            argv += ["--symlink", f"{HOME}/{SOLUTION}", f"/{SOLUTION}"]
        return [*argv, "--chdir", self.seen(phase).app, "--", *inner]

    def _user(self) -> list[str]:
        uid = str(self.isolation.uid)
        return [] if self.isolation.root else ["--unshare-user", "--uid", uid, "--gid", uid]

    def _mounts(self, phase: PhaseName) -> list[tuple[str, str]]:
        host, seen = self.host(phase), self.seen(phase)
        mounts = [(host.app, seen.app), (host.home, seen.home), (host.tmp, seen.tmp)]
        mounts += [(f"{host.logs}/{name}", f"{seen.logs}/{name}") for name in log_folders(phase)]
        return [*mounts, (host.tests, seen.tests)] if phase == "verify" else mounts


def log_folders(phase: PhaseName) -> tuple[str, ...]:
    """Folders under /logs that a phase sees: an agent never sees where the reward will lie."""
    return ("agent", "artifacts") if phase == "agent" else ("agent", "artifacts", "verifier")


def _parents(paths: Iterable[str]) -> list[str]:
    """All folders above `paths` but the root, the outer ones first."""
    return sorted({str(p) for path in paths for p in PurePosixPath(path).parents} - {"/"})


def _within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/") or path == "/"


@cache
def _system() -> tuple[str, ...]:
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = f"/{name}"
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            argv += ["--ro-bind", path, path]
    return tuple(argv)


def copy_etc(target: Path) -> None:
    """Copies the few parts of /etc that a sandbox shows. One folder: every mount costs bubblewrap half a millisecond.

    A copy that is there already stays: sandboxes of an earlier orchestrator may have it mounted.

    Raises:
        OSError: the copy cannot be written.
    """
    if target.is_dir():
        return
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name in ETC:
        source, copy = Path("/etc", name), part / name
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True, ignore=_unreadable)
        elif source.is_file():
            shutil.copyfile(source, copy)
    part.rename(target)


def _unreadable(folder: str, names: list[str]) -> list[str]:
    """What not everybody may read (private keys, for one) stays out."""
    paths = {name: Path(folder, name) for name in names}
    return [name for name, p in paths.items() if not p.is_symlink() and not p.stat().st_mode & 0o004]
