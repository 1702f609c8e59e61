"""Messages of a bus in a file, a JSON object a line: when, on which subject, and the body as it was. Pure but for the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from shared.bus import Tapped
from shared.errors import ConfigError


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message.

    Attributes:
        at: unix time in seconds.
        subject: where it was published.
        message: its body, where that is JSON; else in `raw`, base64.
    """

    at: Annotated[float, Meta(ge=0)]
    subject: Annotated[str, Meta(pattern=r"^[^\s*>]{1,400}\Z")]
    message: msgspec.Raw = msgspec.Raw(b"null")
    raw: bytes = b""

    @property
    def body(self) -> bytes:
        """As it was published."""
        return self.raw or bytes(self.message)


def line_of(tapped: Tapped, at: float) -> bytes:
    """A message as a line, without its end."""
    if tapped.message is not None and b"\n" not in tapped.data:
        return msgspec.json.encode(Recorded(at, tapped.subject, message=msgspec.Raw(tapped.data)))
    return msgspec.json.encode(Recorded(at, tapped.subject, raw=tapped.data))


def recorded(file: Path) -> Iterator[Recorded]:
    """The messages of a file, as they stand there.

    Raises:
        ConfigError: it cannot be read, or a line of it is none; a line that was cut off at its end is left out.
    """
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.endswith(b"\n"):
                    yield _read(file, number, line)
    except OSError as e:
        raise ConfigError(f"{file}: {e.strerror}; `openforge tap --record FILE` writes one") from None


def _read(file: Path, number: int, line: bytes) -> Recorded:
    try:
        return msgspec.json.decode(line, type=Recorded)
    except msgspec.DecodeError as e:
        raise ConfigError(f"{file}, line {number}: no recorded message: {e}") from None
