"""Folders on their way into running containers and out of them."""

from __future__ import annotations

import asyncio
import tarfile
import tempfile
from pathlib import Path

from aiodocker import DockerError
from aiodocker.containers import DockerContainer

from services.orchestrator.backends import tars
from services.orchestrator.backends.docker.container import USER_LABEL
from services.orchestrator.backends.docker.engine import NOT_FOUND, asking
from shared.errors import SandboxError

COPY_BYTES = 1 << 30
"""Most that is copied out of a sandbox at once; an agent may have filled its disk."""
SMALL_BYTES = 1 << 17
_IN_MEMORY = 8 << 20
_CHUNK = 1 << 20


async def copy_in(container: DockerContainer, source: Path, target: str) -> None:
    """See `Backend.copy_in`."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file, asking(f"copying {source} into the sandbox"):
        state = await container.show()
        if not state["State"]["Running"]:
            raise SandboxError("the sandbox does not run")
        await asyncio.to_thread(_pack, source, file, target, _ids(state["Config"]["Labels"][USER_LABEL]))
        file.seek(0)
        await container.put_archive("/", file)


async def copy_out(container: DockerContainer, source: str, target: Path) -> None:
    """See `Backend.copy_out`."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        with asking(f"copying {source} out of the sandbox"):
            await _download(container, source, file, COPY_BYTES)
        file.seek(0)
        await asyncio.to_thread(tars.unpack, file, target)


async def read_small(container: DockerContainer, path: str) -> bytes:
    """Content of a small file of a container, also of one that ended; empty if there is none.

    Raises:
        SandboxError: it is too large, or something else is there.
    """
    with tempfile.SpooledTemporaryFile(SMALL_BYTES * 2) as file:
        with asking(f"reading {path} of the sandbox"):
            try:
                await _download(container, path, file, SMALL_BYTES)
            except DockerError as e:
                if e.status != NOT_FOUND:
                    raise
                return b""
        file.seek(0)
        try:
            with tarfile.open(fileobj=file, mode="r|") as tar:
                member = tar.next()
                content = tar.extractfile(member) if member and member.isreg() else None
                if content is None:
                    raise SandboxError(f"{path} in the sandbox is no file")
                return content.read()
        except tarfile.TarError as e:
            raise SandboxError(f"{path} in the sandbox: {e}") from e


async def _download(container: DockerContainer, source: str, file: tempfile.SpooledTemporaryFile[bytes], most: int) -> None:
    """Not by aiodocker's `get_archive`, which takes all of it into memory, however much it is."""
    query = container.docker._query(f"containers/{container.id}/archive", params={"path": source})
    async with query as response:
        size = 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > most:
                raise SandboxError(f"{source} in the sandbox is larger than the {most} bytes that are taken")
            file.write(chunk)


def _ids(user: str) -> tuple[int, int]:
    """Numbers of a user that is given by numbers; files of one that is given by name are root's, readable to all."""
    name, _, group = user.partition(":")
    return (int(name), int(group or name)) if name.isdigit() and (group or name).isdigit() else (0, 0)


def _pack(source: Path, file: tempfile.SpooledTemporaryFile[bytes], target: str, ids: tuple[int, int]) -> None:
    """An archive with a folder's content as it shall lie under the root of a container."""

    def owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid, info.gid = ids
        info.uname = info.gname = ""
        return info

    with tarfile.open(fileobj=file, mode="w|") as tar:
        tar.add(source, target.strip("/"), filter=owned)
