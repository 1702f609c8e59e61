"""Reads an archive back: every message once, and what was wrong with the files."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from services.collector.archive import archive_files
from shared.errors import ArchiveError
from shared.events import Message, decode, encode
from shared.packing import digester

_GZIP = 31  # zlib's name for the format
_CHUNK = 64 * 1024


@dataclass(slots=True)
class Damage:
    """What was found beside the messages; it is complete once they are all read.

    Attributes:
        torn: members that end before their end: their writer was killed, or is writing them.
        unreadable: bytes from a damaged member to the end of its file.
        foreign: lines that hold no message.
        repeated: messages that were there again, the same but for their time.
        conflicts: ids of those that were there again with another content.
    """

    torn: int = 0
    unreadable: int = 0
    foreign: int = 0
    repeated: int = 0
    conflicts: list[str] = field(default_factory=list)


def read(folder: Path, damage: Damage) -> Iterator[Message]:
    """The messages of an archive, file by file; of several with one id and one content the first that is found.

    Raises:
        ArchiveError: there is no archive, or a file cannot be read.
    """
    files = archive_files(folder)
    if not files:
        raise ArchiveError(f"{folder}: nothing is archived there; was the run made with collector.archive = false?")
    seen: dict[str, set[bytes]] = {}
    for file in files:
        for line in _lines(file, damage):
            try:
                message = decode(line)
            except msgspec.DecodeError:
                damage.foreign += 1
                continue
            if _is_new(message, seen, damage):
                yield message


def _is_new(message: Message, seen: dict[str, set[bytes]], damage: Damage) -> bool:
    content = digester(encode(msgspec.structs.replace(message, at=0.0))).digest()
    known = seen.setdefault(message.event_id, set())
    if content in known:
        damage.repeated += 1
        return False
    if known:
        damage.conflicts.append(message.event_id)
    known.add(content)
    return True


def _lines(file: Path, damage: Damage) -> Iterator[bytes]:
    try:
        content = memoryview(file.read_bytes())
    except FileNotFoundError:
        return  # retention deleted it since
    except OSError as e:
        raise ArchiveError(f"{file}: {e.strerror}") from None
    at = 0
    while at < len(content):
        try:
            member, at = _member(content, at)
        except zlib.error:
            damage.unreadable += len(content) - at
            return
        if member is None:
            damage.torn += 1
            return
        yield from member.splitlines()


def _member(content: memoryview, at: int) -> tuple[bytes | None, int]:
    """The member that begins at a place, checked, and the place behind it; None where the file ends first."""
    unpacker, parts = zlib.decompressobj(wbits=_GZIP), []
    while at < len(content) and not unpacker.eof:
        parts.append(unpacker.decompress(content[at : at + _CHUNK]))
        at = min(at + _CHUNK, len(content))
    return (b"".join(parts) if unpacker.eof else None), at - len(unpacker.unused_data)
