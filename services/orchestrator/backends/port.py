"""Where sandboxes run: the port that the orchestrator drives every kind of them through.

A sandbox is one attempt of one rollout. Inside it a runner owns the agent: it enforces the limits of the stages that it lives
in, verifies, and leaves its status where that outlives the orchestrator. The orchestrator asks for sandboxes, watches them,
ends them and clears them away; it may die in between and finds all of them again.

    schedule ─▶ pull ─▶ boot ─▶ run ─▶ ended      a backend skips the stages that it does not have
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from services.orchestrator.spec import Spec, Status
from shared.errors import ForgeError

Stage = Literal["schedule", "pull", "boot", "run", "ended"]

OUTPUT_BYTES = 1 << 20
"""Of a command's output that are kept."""
LOG_BYTES = 4 << 20
"""Of a sandbox's logs that are given."""
FORGOTTEN_S = 86_400.0
"""After the moment at which all in a sandbox must have ended. One that is still there then is nobody's: its orchestrator never
came back, or it was kept to be looked at. Any orchestrator that starts with the same engine or namespace removes it."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a sandbox may use; None leaves it to the backend.

    Attributes:
        cpus: cores, fractions too.
        memory_mb, storage_mb: MiB of memory and of disk.
        pids: processes and threads at once.
    """

    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """A sandbox that is asked for.

    Attributes:
        name: the session id of the attempt; a backend has one sandbox of a name.
        labels: `run`, `rollout`, `group`, `task`, `harness`, each a text.
        spec: what its runner is told, with paths as the runner sees them.
        folder: of the attempt in the run folder, where what is known of it is kept.
        image: that it starts from; empty in backends without images.
        dockerfile: that the image is built from, with its folder as the context; `image` is of no meaning then.
        build_timeout_s: limit of that in seconds.
        harness: name of the adapter of the harness, which is brought into the image; empty for none.
        packages: folders of this machine that the runner unpacks when a phase begins, by the name that the phase calls them.
        resources: what it may use.
        user: that agent and verifier run as; empty takes the backend's own, which is never root.
        network: `none` reaches the proxy alone; `public` reaches the internet too, for tasks that ask for it.
        deadline_s: seconds after which everything in it must long have ended; the backend may then end it by itself.
    """

    name: str
    labels: Mapping[str, str]
    spec: Spec
    folder: Path
    image: str = ""
    dockerfile: Path | None = None
    build_timeout_s: float = 600.0
    harness: str = ""
    packages: Mapping[str, Path] = field(default_factory=dict)
    resources: Resources = Resources()
    user: str = ""
    network: Literal["none", "public"] = "none"
    deadline_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Seen:
    """How a sandbox was last seen.

    Attributes:
        name: its session id.
        stage: that it is in.
        status: what its runner left, once it ended by its own will; else None.
        error: why it ended otherwise: it was lost, evicted, out of memory, its image could not be pulled...
        where: node or machine, for a person.
        used: resources that it used (`cpu_s`, `memory_mb`), where the backend knows.
        image: digest of its image, once it ended; empty in backends without images.
    """

    name: str
    stage: Stage
    status: Status | None = None
    error: ForgeError | None = None
    where: str = ""
    used: Mapping[str, float] = field(default_factory=dict)
    image: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command in a sandbox ended: its exit code, and the first `OUTPUT_BYTES` that it printed."""

    exit_code: int
    output: bytes


class Backend(Protocol):
    """Sandboxes of one run, by session id.

    Methods raise `SandboxAway` when the backend cannot be reached, which says nothing about the sandboxes, and another
    `SandboxError` when what was asked for cannot be.
    """

    kind: str
    """Said in `rollout.started`: `bubblewrap`, `docker`, `kubernetes`..."""

    async def open(self) -> None:
        """Finds out whether sandboxes can be had here.

        Raises:
            SandboxError: they cannot; the text says why and what to do.
        """
        ...

    async def start(self, box: Box) -> None:
        """Asks for a sandbox. If there is one of that name already, it is left as it is: asking again changes nothing."""
        ...

    async def present(self) -> list[Seen]:
        """All sandboxes of the run that were not cleared away, ended ones too."""
        ...

    def watch(self) -> AsyncIterator[Seen]:
        """First every sandbox that there is, then each change, for as long as it is listened to.

        A break in between is bridged: what changed meanwhile is told afterwards, so that an end is never missed. The same
        state may be told more than once. A sandbox that vanished is told as ended with an error.
        """
        ...

    async def end(self, name: str, grace_s: float) -> None:
        """Asks a sandbox to end everything in it, and kills it when `grace_s` have passed. Returns once it was asked; one that
        is not there is left alone."""
        ...

    async def remove(self, name: str) -> None:
        """Clears an ended sandbox away, with all that it kept; kills one that still runs."""
        ...

    async def logs(self, name: str) -> bytes:
        """What runner, agent and verifier printed, the first `LOG_BYTES` of it; nothing of a sandbox that is not there."""
        ...

    async def copy_in(self, name: str, source: Path, target: str) -> None:
        """Copies a folder's content into the folder `target` of a running sandbox, which is made if need be."""
        ...

    async def copy_out(self, name: str, source: str, target: Path) -> None:
        """Copies a file or folder of a sandbox, under its own name, into the folder `target` of this machine.

        Of one that has ended the local backend has the working folder, logs, home and temporary folder left; docker has all of
        it, Kubernetes what its spec says that it `leaves`, by the same words.

        Raises:
            SandboxError: it is not there, or holds what would land outside of `target`.
        """
        ...

    async def run(self, name: str, argv: list[str], timeout_s: float) -> Ran:
        """Runs a command in a running sandbox, as the user that its agent runs as, in its working folder.

        Raises:
            SandboxError: the sandbox does not run, or the command did not end in time and was killed.
        """
        ...

    async def close(self) -> None:
        """Lets go of connections; sandboxes go on. Also after an `open` that raised."""
        ...
