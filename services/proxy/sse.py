"""Server-sent events, split without a limit on their length: the first one holds the whole prompt."""

from __future__ import annotations

import re

_END = re.compile(rb"\n\r?\n")
_DATA = b"data:"


class SseSplitter:
    """Cuts a byte stream into events, however the bytes were chunked. Joined again, the events are the stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The events that `data` completes, each with the blank line that ends it."""
        self._buffer += data
        events, start = [], 0
        while found := _END.search(self._buffer, max(start, self._searched)):
            events.append(bytes(self._buffer[start : found.end()]))
            start = self._searched = found.end()
        del self._buffer[:start]
        # The end of an event may lie across two pieces: two bytes of it may be here already.
        self._searched = max(0, len(self._buffer) - 2)
        return events

    @property
    def rest(self) -> bytes:
        """Bytes after the last whole event."""
        return bytes(self._buffer)


def event_data(event: bytes) -> bytes:
    """The data lines of an event, joined; empty for a comment, and for the marker that ends OpenAI's streams."""
    if event.startswith(b"data: {") and event.find(b"\n") == len(event) - 2:  # nearly always: one line of JSON
        return event[6:-2]
    lines = (line[len(_DATA) :].removeprefix(b" ") for line in event.splitlines() if line.startswith(_DATA))
    data = b"\n".join(lines)
    return b"" if data == b"[DONE]" else data
