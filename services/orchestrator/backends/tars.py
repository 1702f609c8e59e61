"""Folders on their way into sandboxes and out of them, as tar archives. What comes out is not trusted: an agent made it."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from shared.errors import SandboxError


def pack(source: Path, file: IO[bytes]) -> None:
    """Writes the content of a folder as a tar archive. Blocks.

    Raises:
        SandboxError: it cannot be read.
    """
    try:
        with tarfile.open(fileobj=file, mode="w|") as tar:
            for entry in sorted(source.iterdir()):
                tar.add(entry, entry.name)
    except OSError as e:
        raise SandboxError(f"{source}: {e}") from e


def pack_one(source: Path, name: str, file: IO[bytes]) -> None:
    """Writes a file or folder as a tar archive, under that name; links in it stay links. Blocks.

    Raises:
        SandboxError: it is not there, or cannot be read.
    """
    try:
        with tarfile.open(fileobj=file, mode="w|") as tar:
            tar.add(source, name)
    except OSError as e:
        raise SandboxError(f"{source}: {e}") from e


def inflate(packed: bytes, take: Callable[[bytes], object]) -> None:
    """Gives away piece by piece what was compressed with gzip. Blocks.

    Raises:
        SandboxError: it was not, or `take` does not want so much.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            while piece := file.read(1 << 20):
                take(piece)
    except (OSError, EOFError, zlib.error) as e:
        raise SandboxError(f"what was left is not compressed as it should be: {e}") from e


def unpack(file: IO[bytes], target: Path) -> None:
    """Unpacks a tar archive of folders, files and links among them into a folder, which is made if need be. Blocks.

    Raises:
        SandboxError: it is no archive, or something in it is meant for a place outside of the folder, or is of another kind.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=file, mode="r|") as tar:
            for member in tar:
                _unpack(tar, member, target.resolve())
    except (tarfile.TarError, OSError) as e:
        raise SandboxError(f"what came out of the sandbox is not unpacked: {e}") from e


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    path = _inside(target, target / member.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        path.mkdir(exist_ok=True)
    elif member.issym():
        _inside(target, path.parent / member.linkname)
        path.symlink_to(member.linkname)
    elif member.islnk():
        os.link(_inside(target, target / member.linkname), path, follow_symlinks=False)
    elif member.isreg():
        source = tar.extractfile(member)
        assert source is not None, "it is a file"
        with path.open("xb") as copy:  # never into what is there, which may be a link
            shutil.copyfileobj(source, copy)
        path.chmod(0o600 | (member.mode & 0o100))
    else:
        raise SandboxError(f"{member.name} is neither a file nor a folder nor a link")


def _inside(target: Path, path: Path) -> Path:
    """The path, links of its folders followed.

    Raises:
        SandboxError: it leads out of `target`.
    """
    place = path.parent.resolve() / path.name
    if path.name == ".." or not place.is_relative_to(target) or not path.resolve().is_relative_to(target):
        raise SandboxError(f"{path} leads out of the folder that it was copied to")
    return place
