"""Leaves the work of runners in containers with the proxy, each package once, and takes what they left there."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from services.orchestrator.backends.port import Box
from services.orchestrator.control import PATIENCE_S, ControlRoutes
from services.orchestrator.runner.fetch import left_name
from shared.config import ProxyConfig
from shared.errors import FidelityError, StoreUnavailable, TaskError

MAX_PACKAGE = 64 << 20
"""Bytes of a packed folder that the proxy takes."""
_ROUNDS = 3  # a store may be wiped between two requests


class _Left(msgspec.Struct):
    ticket: str
    missing: list[str] = []


@dataclass(frozen=True, slots=True)
class _Packed:
    """A folder that was packed: how it looked, and the hash of the package."""

    looks: tuple[int, int, int]
    sha256: str


class Depot:
    """A client of the proxy's routes for packages.

    Args:
        config: the proxy's address.
        control_key: opens the routes.
        patience_s: how long to go on trying while it is away.
    """

    def __init__(self, config: ProxyConfig, control_key: str, patience_s: float = PATIENCE_S) -> None:
        self._routes = ControlRoutes(config, control_key, patience_s)
        self._packed: dict[Path, _Packed] = {}
        self._packing: dict[Path, asyncio.Lock] = {}

    async def put(self, box: Box) -> str:
        """Leaves the spec and the packages of a sandbox there; gives the ticket that opens them, the same for the same box.

        Raises:
            TaskError: a folder is too large, or cannot be read.
            EngineError: the proxy did not answer in time.
            StoreUnavailable: its store lost what was left.
        """
        packages = {name: await self._pack(folder) for name, folder in box.packages.items()}
        body = {"spec": box.spec, "packages": packages, "leaves": [left_name(path) for path in box.spec.get("leaves", ())]}
        for _ in range(_ROUNDS):
            left = await self._routes.call("PUT", f"boxes/{box.name}", _Left, msgspec.json.encode(body))
            if not left.missing:
                return left.ticket
            for sha256 in left.missing:
                await self._upload(next(box.packages[name] for name, known in packages.items() if known == sha256), sha256)
        raise StoreUnavailable("the store lost packages again and again")

    async def left(self, session: str, path: str) -> bytes:
        """What the runner of a sandbox left of a file or folder before it ended: a compressed tar with that under its own name;
        nothing if there was nothing to leave.

        Raises:
            EngineError: the proxy did not answer in time.
            StoreUnavailable: its store has nothing of it, or lost it.
        """
        try:
            return await self._routes.fetch("GET", f"boxes/{session}/{left_name(path)}")
        except FidelityError as e:
            raise StoreUnavailable(f"what the sandbox {session} left of {path} is gone: {e}") from e

    async def close(self) -> None:
        """Ends the connections."""
        await self._routes.close()

    async def _pack(self, folder: Path) -> str:
        """The hash of a folder's package, from memory if the folder looks as it did."""
        async with self._packing.setdefault(folder, asyncio.Lock()):
            looks, known = await asyncio.to_thread(_looks, folder), self._packed.get(folder)
            if known is None or known.looks != looks:
                known = _Packed(looks, hashlib.sha256(await asyncio.to_thread(pack, folder)).hexdigest())
                self._packed[folder] = known
            return known.sha256

    async def _upload(self, folder: Path, sha256: str) -> None:
        async with self._packing[folder]:
            body = await asyncio.to_thread(pack, folder)
            if hashlib.sha256(body).hexdigest() != sha256:
                self._packed.pop(folder, None)
                raise TaskError(f"{folder} changed while it was packed; leave it alone while rollouts use it")
            await self._routes.call("PUT", f"packages/{sha256}", dict, body)


def pack(folder: Path) -> bytes:
    """A compressed tar of a folder's content, the same for the same content. A folder that is not there is an empty one.

    Raises:
        TaskError: it is too large, or something in it is neither folder, file nor link, or cannot be read.
    """
    out = io.BytesIO()
    try:
        with (
            gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for path in sorted(folder.rglob("*")):
                _add(tar, path, str(path.relative_to(folder)))
                if out.tell() > MAX_PACKAGE:
                    raise TaskError(f"{folder}: more than {MAX_PACKAGE >> 20} MiB packed; put it into the task's image")
    except OSError as e:
        raise TaskError(f"{folder} cannot be packed: {e}") from e
    return out.getvalue()


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    info = tar.gettarinfo(path, name)
    if info is None or not (info.isdir() or info.issym() or info.isreg() or info.islnk()):
        raise TaskError(f"{path} is neither folder, file nor link")
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    if info.islnk():  # a file of several names is packed by each
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
    if info.isreg():
        with path.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def _looks(folder: Path) -> tuple[int, int, int]:
    """Number of entries, their bytes, and when one was last changed."""
    count = size = latest = 0
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            stat = os.lstat(os.path.join(top, name))
            count, size, latest = count + 1, size + stat.st_size, max(latest, stat.st_mtime_ns, stat.st_ctime_ns)
    return count, size, latest
