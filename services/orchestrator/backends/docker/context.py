"""What an image is built from: a folder, less what its .dockerignore names, and a digest of that."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

IGNORE = ".dockerignore"
_ALWAYS = ("Dockerfile", IGNORE)


def pack(folder: Path, file: IO[bytes] | None = None) -> str:
    """Writes a folder as a tar archive that depends on names, modes and contents alone, and gives its digest. Blocks.

    Without a file there is but the digest.

    Raises:
        OSError: something in it cannot be read.
    """
    summed = _Summed(file)
    with tarfile.open(fileobj=summed, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for name in entries(folder):
            info = tar.gettarinfo(folder / name, name)
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            if info.islnk():  # the second name of a file that was packed already is packed whole
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", (folder / name).stat().st_size
            with (folder / name).open("rb") if info.isreg() else io.BytesIO() as content:
                tar.addfile(info, content)
    return summed.hash.hexdigest()


def entries(folder: Path) -> Iterator[str]:
    """Relative paths of all that is packed, in order: folders, files and links; links are not followed."""
    ignored = ignoring((folder / IGNORE).read_text(encoding="utf-8").splitlines() if (folder / IGNORE).is_file() else ())
    for here, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(folders + files):
            path = os.path.relpath(os.path.join(here, name), folder)
            if path in _ALWAYS or not ignored(path):
                yield path


def ignoring(lines: Iterable[str]) -> Callable[[str], bool]:
    """Whether a relative path is left out, by the lines of a .dockerignore: the last one that matches decides."""
    rules = []
    for line in lines:
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        kept = pattern.startswith("!")
        cleaned = os.path.normpath(pattern.lstrip("!").strip().lstrip("/"))
        rules.append((re.compile(_regex(cleaned)), not kept))

    def ignored(path: str) -> bool:
        return next((out for regex, out in reversed(rules) if regex.fullmatch(path)), False)

    return ignored


def _regex(pattern: str) -> str:
    """A pattern matches what it names, and all below it. `**` stands for any folders, `*` and `?` for no more than one."""
    words = re.split(r"(\*\*/?|\*|\?|\[[^]]+\])", pattern)
    meant = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meant.get(w) or (w if w.startswith("[") and w.endswith("]") else re.escape(w)) for w in words) + "(?:/.*)?"


class _Summed(io.RawIOBase):
    """Hashes what is written, and passes it on to a file if there is one."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.hash.update(data)
        return self._file.write(data) if self._file else len(data)
