"""Server-sent events, split without a limit on their length: the first one holds the whole prompt."""

from __future__ import annotations

import re

_BLANKS = (b"\n\n", b"\n\r\n")
_END = re.compile(rb"\n\r?\n")
_DATA = b"data:"
_DONE = b"[DONE]"
_LAST = b"data: [DONE]\n\n"
_OPEN, _CLOSE = b"data: {", b"}\n\n"
_BETWEEN = _CLOSE + _OPEN
_LF, _CR = b"\n\r"  # numbers: in a search for bytes, Python first makes and drops an error


class SseSplitter:
    """Cuts a byte stream at the ends of events, however the bytes were chunked. Joined again, what comes out is the stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> bytes:
        """The events that `data` completes, with the blank lines that end them; empty if it completes none."""
        if not self._buffer and data.endswith(_BLANKS[0]):  # as most engines send them
            return data
        self._buffer += data
        blanks = _BLANKS if _CR in self._buffer else _BLANKS[:1]  # a search for what is not there is the longest
        ends = [at + len(blank) for blank in blanks if (at := self._buffer.rfind(blank, self._searched)) >= 0]
        events = bytes(self._buffer[: max(ends, default=0)])
        del self._buffer[: len(events)]
        # The end of an event may lie across two pieces: two bytes of it may be here already.
        self._searched = max(0, len(self._buffer) - 2)
        return events

    @property
    def rest(self) -> bytes:
        """Bytes after the last whole event."""
        return bytes(self._buffer)


def data_of(events: bytes) -> list[bytes]:
    """The data of whole events: of each one its data lines, joined. Those without are left out, as is the marker that ends
    OpenAI's streams."""
    found = events[len(_DATA) + 1 : -2].split(b"\n\ndata: ")  # nearly always every event is one line of data
    if not events.startswith(b"data: ") or _CR in events or any([_LF in data for data in found]):
        found = [_data(event) for event in _END.split(events)]
    return [data for data in found if data and data != _DONE]


def lines_of(events: bytes) -> tuple[bytes, int]:
    """The data of whole events, one a line, and how many there are: in one step where each is an object on one line, as nearly
    always. Other events give lines that are not so many JSON texts: an object can only begin behind one that is complete.
    """
    data = events.removesuffix(_LAST)
    if not (data.startswith(_OPEN) and data.endswith(_CLOSE)):
        return b"", -1
    found = data[len(_OPEN) - 1 : 1 - len(_CLOSE)].split(_BETWEEN)
    return b"}\n{".join(found), len(found)


def _data(event: bytes) -> bytes:
    return b"\n".join(line[len(_DATA) :].removeprefix(b" ") for line in event.splitlines() if line.startswith(_DATA))


def start_of_last(events: bytes, count: int) -> int:
    """Where the last `count` of the events that hold data begin."""
    start = len(events)
    while start and count:
        end = start
        blank = events.rfind(b"\n\n", 0, end - 1)  # not the end of this very event
        odd = events.rfind(b"\n\r\n", max(blank, 0), end - 1)
        start = odd + 3 if odd >= 0 else blank + 2 if blank >= 0 else 0
        count -= bool(data_of(events[start:end]))
    return start
