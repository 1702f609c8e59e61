"""Words a reply as a Responses stream, or as one response object."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from services.proxy.dialects import responses_events as ev
from services.proxy.dialects.base import Delta, Reply, ToolDelta
from services.proxy.dialects.responses_items import CALLS, Opened, OpenedCall, OpenedMessage, OpenedReasoning
from services.proxy.dialects.responses_tools import Origin
from services.proxy.dialects.terms import encode
from services.proxy.errors import broken


@dataclass(frozen=True, slots=True)
class Asked:
    """What the writer must know of a request.

    Attributes:
        model: as the harness named it.
        origins: the harness's tools by the name of the function.
        parallel_tool_calls, tool_choice, max_output_tokens, temperature, top_p: as asked for; they are echoed.
    """

    model: str
    origins: dict[str, Origin]
    parallel_tool_calls: bool
    tool_choice: msgspec.Raw
    max_output_tokens: int | None
    temperature: float | None
    top_p: float | None


class ResponsesWriter:
    """The `Writer` of the Responses API.

    An item ends when one of another kind begins, as clients demand that follow one item at a time; content after a call is a
    second message.
    """

    def __init__(self, asked: Asked, reply_id: str, created: int) -> None:
        self._asked = asked
        self._id = reply_id
        self._created = created
        self._output: list[ev.Item] = []
        self._open: Opened | None = None
        self._tool = -1
        self._sent = 0

    def start(self, prompt_tokens: int) -> bytes:
        """`response.created` and `response.in_progress`; the token counts come with the end."""
        response = self._response("in_progress")
        return self._send([ev.Created(response), ev.InProgress(response)])

    def add(self, delta: Delta) -> bytes:
        """The events of an increment.

        Raises:
            Refused: the engine went back to a tool call that it had ended.
        """
        events: list[ev.Event] = []
        if delta.reasoning:
            events += self._text(OpenedReasoning, delta.reasoning)
        if delta.content:
            events += self._text(OpenedMessage, delta.content)
        for part in delta.tools:
            events += self._call(part)
        return self._send(events)

    def finish(self, reply: Reply) -> bytes:
        """The end of the last item, then `response.completed`, or `response.incomplete` when the tokens ran out."""
        cut = reply.finish_reason == "length"
        events = self._end("incomplete" if cut else "completed")
        response = self._final(reply)
        events.append(ev.CutShort(response) if cut else ev.Completed(response))
        return self._send(events)

    def whole(self, reply: Reply) -> bytes:
        """The response object that a stream would have ended with."""
        tools = tuple(ToolDelta(i, c.id, c.name, c.arguments) for i, c in enumerate(reply.tool_calls))
        self.add(Delta(reply.reasoning, reply.content, tools))
        self.finish(reply)
        return encode(self._final(reply))

    def _text(self, kind: type[OpenedReasoning | OpenedMessage], text: str) -> list[ev.Event]:
        item = self._open
        if type(item) is kind:
            return item.add(text)
        events = self._end("completed")
        item = self._open = kind(*self._place())
        return [*events, *item.begin(), *item.add(text)]

    def _call(self, part: ToolDelta) -> list[ev.Event]:
        events: list[ev.Event] = []
        if part.index > self._tool:
            events += self._end("completed")
            events += self._begin_call(part).begin()
        item = self._open
        if part.index < self._tool or not isinstance(item, OpenedCall):
            raise broken(f"the engine went back to tool call {part.index}, which it had ended")
        return events + item.add(part.arguments) if part.arguments else events

    def _begin_call(self, part: ToolDelta) -> Opened:
        origin = self._asked.origins.get(part.name, Origin(part.name))
        self._tool = part.index
        self._open = CALLS[origin.kind](*self._place(), part.id, origin)
        return self._open

    def _place(self) -> tuple[int, str]:
        """Index and id of the next item."""
        at = len(self._output)
        return at, f"{self._id}_{at}"

    def _end(self, status: ev.Status) -> list[ev.Event]:
        if self._open is None:
            return []
        item, events = self._open.end(status)
        self._output.append(item)
        self._open = None
        return events

    def _final(self, reply: Reply) -> ev.Response:
        cut = reply.finish_reason == "length"
        response = self._response("incomplete" if cut else "completed")
        response.incomplete_details = ev.Incomplete("max_output_tokens") if cut else None
        used = reply.usage
        response.usage = ev.Usage(used.prompt, used.completion, used.prompt + used.completion, ev.InputDetails(used.cached))
        return response

    def _response(self, status: ev.Status) -> ev.Response:
        asked = self._asked
        return ev.Response(
            f"resp_{self._id}",
            self._created,
            asked.model,
            status,
            self._output,
            parallel_tool_calls=asked.parallel_tool_calls,
            tool_choice=asked.tool_choice,
            max_output_tokens=asked.max_output_tokens,
            temperature=asked.temperature,
            top_p=asked.top_p,
        )

    def _send(self, events: list[ev.Event]) -> bytes:
        lines = [event.line(number) for number, event in enumerate(events, self._sent)]
        self._sent += len(lines)
        return b"".join(lines)
