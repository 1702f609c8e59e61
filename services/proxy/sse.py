"""Server-sent events, split without a limit on their length: the first one holds the whole prompt."""

from __future__ import annotations

import re

_END = re.compile(rb"\n\r?\n")
_BLANK = b"\n\n"
_DATA = b"data:"


class SseSplitter:
    """Cuts a byte stream into events, however the bytes were chunked. Joined again, the events are the stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The events that `data` completes, each with the blank line that ends it."""
        self._buffer += data
        if not _END.search(self._buffer, self._searched):
            # The end of an event may lie across two pieces: two bytes of it may be here already.
            self._searched = max(0, len(self._buffer) - 2)
            return []
        stream = bytes(self._buffer)
        events = _cut(stream) if b"\r" in stream else [event + _BLANK for event in _END.split(stream)[:-1]]
        del self._buffer[: sum(map(len, events))]
        self._searched = max(0, len(self._buffer) - 2)
        return events

    @property
    def rest(self) -> bytes:
        """Bytes after the last whole event."""
        return bytes(self._buffer)


def _cut(stream: bytes) -> list[bytes]:
    """The whole events of a stream whose lines may end in CR LF, too; JSON holds no bare CR, so that this is rare."""
    events, start = [], 0
    for end in _END.finditer(stream):
        events.append(stream[start : end.end()])
        start = end.end()
    return events


def event_data(event: bytes) -> bytes:
    """The data lines of an event, joined; empty for a comment, and for the marker that ends OpenAI's streams."""
    if event.startswith(b"data: {") and event.find(b"\n") == len(event) - 2:  # nearly always: one line of JSON
        return event[6:-2]
    lines = (line[len(_DATA) :].removeprefix(b" ") for line in event.splitlines() if line.startswith(_DATA))
    data = b"\n".join(lines)
    return b"" if data == b"[DONE]" else data
