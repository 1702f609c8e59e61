"""Output items while they are written: each gives the events that begin it, add to it and end it, in the API's order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import msgspec

from services.proxy.dialects import responses_events as ev
from services.proxy.dialects.arguments import as_object
from services.proxy.dialects.responses_custom import Unwrapper, unwrap
from services.proxy.dialects.responses_sealed import seal
from services.proxy.dialects.responses_tools import Origin


class Opened(ABC):
    """An item that is being written.

    Args:
        index: its place in the output.
        item_id: without the prefix that tells its kind.
    """

    prefix: str

    def __init__(self, index: int, item_id: str) -> None:
        self._index = index
        self._id = f"{self.prefix}_{item_id}"
        self._pieces: list[str] = []

    def add(self, text: str) -> list[ev.Event]:
        """The events of an increment."""
        self._pieces.append(text)
        return self._delta(text)

    @abstractmethod
    def begin(self) -> list[ev.Event]:
        """The events before the first increment."""

    @abstractmethod
    def end(self, status: ev.Status) -> tuple[ev.Item, list[ev.Event]]:
        """The whole item, and the events that end it."""

    @abstractmethod
    def _delta(self, text: str) -> list[ev.Event]: ...

    @property
    def _whole(self) -> str:
        return "".join(self._pieces)


class OpenedReasoning(Opened):
    """Reasoning. Its summary is the text too: some clients show, and some return, nothing else."""

    prefix = "rs"

    def begin(self) -> list[ev.Event]:
        item = ev.Reasoning(self._id, "in_progress", [], [])
        return [
            ev.ItemAdded(self._index, item),
            ev.PartAdded(self._id, self._index, ev.ReasoningText("")),
        ]

    def _delta(self, text: str) -> list[ev.Event]:
        return [ev.ReasoningDelta(self._id, self._index, text)]

    def end(self, status: ev.Status) -> tuple[ev.Item, list[ev.Event]]:
        text = self._whole
        part = ev.ReasoningText(text)
        item = ev.Reasoning(self._id, status, [ev.SummaryText(text)], [part], seal(text))
        return item, [
            ev.ReasoningDone(self._id, self._index, text),
            ev.PartDone(self._id, self._index, part),
            ev.ItemDone(self._index, item),
        ]


class OpenedMessage(Opened):
    """A message of the assistant."""

    prefix = "msg"

    def begin(self) -> list[ev.Event]:
        return [
            ev.ItemAdded(self._index, ev.Message(self._id, "in_progress", [])),
            ev.PartAdded(self._id, self._index, ev.OutputText("")),
        ]

    def _delta(self, text: str) -> list[ev.Event]:
        return [ev.TextDelta(self._id, self._index, text)]

    def end(self, status: ev.Status) -> tuple[ev.Item, list[ev.Event]]:
        text = self._whole
        part = ev.OutputText(text)
        item = ev.Message(self._id, status, [part])
        return item, [
            ev.TextDone(self._id, self._index, text),
            ev.PartDone(self._id, self._index, part),
            ev.ItemDone(self._index, item),
        ]


class OpenedCall(Opened):
    """A call of a tool.

    Args:
        index, item_id: as of every item.
        call_id: the engine's.
        origin: the harness's tool.
    """

    def __init__(self, index: int, item_id: str, call_id: str, origin: Origin) -> None:
        super().__init__(index, item_id)
        self._call_id = call_id
        self._name = origin.name
        self._namespace = origin.namespace or msgspec.UNSET


class OpenedFunctionCall(OpenedCall):
    """A call of a function."""

    prefix = "fc"

    def _item(self, status: ev.Status, arguments: str) -> ev.FunctionCall:
        return ev.FunctionCall(self._id, status, self._call_id, self._name, arguments, self._namespace)

    def begin(self) -> list[ev.Event]:
        return [ev.ItemAdded(self._index, self._item("in_progress", ""))]

    def _delta(self, text: str) -> list[ev.Event]:
        return [ev.ArgumentsDelta(self._id, self._index, text)]

    def end(self, status: ev.Status) -> tuple[ev.Item, list[ev.Event]]:
        item = self._item(status, self._whole)
        done = ev.ArgumentsDone(self._id, self._index, self._name, item.arguments)
        return item, [done, ev.ItemDone(self._index, item)]


class OpenedCustomCall(OpenedCall):
    """A call of a custom tool: its text, out of the arguments that the model wraps it in."""

    prefix = "ctc"

    def __init__(self, index: int, item_id: str, call_id: str, origin: Origin) -> None:
        super().__init__(index, item_id, call_id, origin)
        self._unwrapper = Unwrapper()

    def _item(self, status: ev.Status, text: str) -> ev.CustomToolCall:
        return ev.CustomToolCall(self._id, status, self._call_id, self._name, text, self._namespace)

    def begin(self) -> list[ev.Event]:
        return [ev.ItemAdded(self._index, self._item("in_progress", ""))]

    def _delta(self, text: str) -> list[ev.Event]:
        text = self._unwrapper.feed(text)
        return [ev.InputDelta(self._id, self._index, text)] if text else []

    def end(self, status: ev.Status) -> tuple[ev.Item, list[ev.Event]]:
        item = self._item(status, unwrap(self._whole))
        done = ev.InputDone(self._id, self._index, item.input)
        return item, [done, ev.ItemDone(self._index, item)]


class OpenedSearchCall(OpenedCall):
    """A search for tools. The API has no increments for it, and gives its arguments as an object."""

    prefix = "tsc"

    def begin(self) -> list[ev.Event]:
        item = ev.ToolSearchCall(self._id, "in_progress", self._call_id, msgspec.Raw(b"{}"))
        return [ev.ItemAdded(self._index, item)]

    def _delta(self, text: str) -> list[ev.Event]:
        return []

    def end(self, status: ev.Status) -> tuple[ev.Item, list[ev.Event]]:
        item = ev.ToolSearchCall(self._id, status, self._call_id, as_object(self._whole))
        return item, [ev.ItemDone(self._index, item)]


CALLS: dict[str, Callable[[int, str, str, Origin], OpenedCall]] = {
    "function": OpenedFunctionCall,
    "custom": OpenedCustomCall,
    "search": OpenedSearchCall,
}
"""By `Origin.kind`."""
