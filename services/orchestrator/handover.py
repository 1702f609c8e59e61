"""What an agent leaves for a verifier in a sandbox of its own, on its way through a folder of this machine."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from services.orchestrator.backends.port import Backend
from services.orchestrator.sandbox import Sandbox
from shared.errors import SandboxAway, SandboxError
from shared.task.sections import Artifact

log = logging.getLogger(__name__)

HANDOVER = "handover"
"""Of the folder of an attempt: what its agent left. One folder for each artifact, by number."""


@dataclass(frozen=True, slots=True)
class Handed:
    """An artifact that the agent left.

    Attributes:
        source: where it lay in the sandbox.
        folder: of this machine that has it, under its own name.
        tree: it is a folder.
    """

    source: PurePosixPath
    folder: Path
    tree: bool


def handed(artifacts: Sequence[Artifact], folder: Path) -> list[Handed]:
    """Those of the artifacts that `take` found."""
    found = []
    for number, artifact in enumerate(artifacts):
        source, place = PurePosixPath(artifact.source.rstrip("/")), folder / str(number)
        if (place / source.name).exists():
            found.append(Handed(source, place, (place / source.name).is_dir()))
    return found


async def take(backend: Backend, name: str, sandbox: Sandbox, artifacts: Sequence[Artifact], folder: Path) -> None:
    """Takes artifacts out of a sandbox that has ended. What is not there, or is no tree of files, is left out; if all was taken
    before, nothing is done.

    Args:
        backend: that has the sandbox.
        name: of it.
        sandbox: how its programs saw it.
        artifacts: of the task.
        folder: that they come to.

    Raises:
        SandboxAway: the backend cannot be reached.
        OSError: the folder cannot be written.
    """
    if folder.is_dir():
        return
    part = folder.with_name(f"{folder.name}.part")
    await asyncio.to_thread(shutil.rmtree, part, ignore_errors=True)
    for number, artifact in enumerate(artifacts):
        place = part / str(number)
        place.mkdir(parents=True)
        source = artifact.source.rstrip("/")
        seen = sandbox.path_of(source)
        try:
            await backend.copy_out(name, seen, place)
            (place / PurePosixPath(seen).name).rename(place / PurePosixPath(source).name)
        except SandboxAway:
            raise
        except SandboxError as e:
            log.info("%s: %s is not handed to the verifier: %s", name, artifact.source, e)
            await asyncio.to_thread(shutil.rmtree, place)
            continue
        await asyncio.to_thread(_leave_out, place, artifact.exclude)
    part.rename(folder)


def _leave_out(folder: Path, patterns: Sequence[str]) -> None:
    """Removes what a pattern has the name or the path of, from the artifact's own folder on."""
    for path in sorted(folder.glob("*/**/*")) if patterns else ():
        inner = path.relative_to(folder)
        names = (path.name, str(PurePosixPath(*inner.parts[1:])))
        if not path.is_symlink() and not path.exists():
            continue  # it went with its folder
        if any(fnmatch(name, pattern) for name in names for pattern in patterns):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
