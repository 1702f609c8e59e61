"""What a program prints."""

from __future__ import annotations

import os

CHUNK = 65536
_PIECES = 16
_TAIL = 400


class Output:
    """The first `limit` bytes go on, the rest is read and dropped.

    Args:
        path: file that gets them; empty for the runner's own output, after a line that names the phase.
        phase: its name.
        limit: in bytes.
    """

    def __init__(self, path: str, phase: str, limit: int) -> None:
        self.fd, self.write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        self.open = True
        self._to = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) if path else os.dup(1)
        self._left, self._limit, self._dropped = limit, limit, 0
        self._last = b"\n"
        if not path:
            self._write(b"--- %b ---\n" % phase.encode())

    @property
    def tail(self) -> str:
        """The last of what was kept."""
        return self._last.decode("utf-8", "replace").strip()

    def drain(self) -> None:
        """Takes what is there now, some pieces at a time: who writes as fast as this reads must not hold up the rest."""
        try:
            for _ in range(_PIECES):
                chunk = os.read(self.fd, CHUNK)
                if not chunk:
                    self.open = False
                    break
                kept = chunk[: self._left]
                self._left -= len(kept)
                self._dropped += len(chunk) - len(kept)
                if kept:
                    self._write(kept)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Takes the rest, and says how much was dropped."""
        self.drain()
        if self._dropped:
            self._write(b"\n[%d bytes more were dropped: the limit is %d]\n" % (self._dropped, self._limit))
        os.close(self._to)
        os.close(self.fd)

    def _write(self, data: bytes) -> None:
        self._last = (self._last + data)[-_TAIL:]
        while data:
            data = data[os.write(self._to, data) :]
