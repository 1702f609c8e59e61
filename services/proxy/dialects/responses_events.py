"""What a Responses client is sent: output items, the response object, and the events of a stream. Shapes only."""

from __future__ import annotations

from typing import Literal

import msgspec

from services.proxy.dialects.terms import encode

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(msgspec.Struct, tag="output_text"):
    text: str
    annotations: tuple[()] = ()
    logprobs: tuple[()] = ()


class ReasoningText(msgspec.Struct, tag="reasoning_text"):
    text: str


class SummaryText(msgspec.Struct, tag="summary_text"):
    text: str


class Reasoning(msgspec.Struct, tag="reasoning"):
    id: str
    status: Status
    summary: list[SummaryText]
    content: list[ReasoningText]
    encrypted_content: str | None = None


class Message(msgspec.Struct, tag="message"):
    id: str
    status: Status
    content: list[OutputText]
    role: str = "assistant"


class FunctionCall(msgspec.Struct, tag="function_call"):
    id: str
    status: Status
    call_id: str
    name: str
    arguments: str
    namespace: str | msgspec.UnsetType = msgspec.UNSET


class CustomToolCall(msgspec.Struct, tag="custom_tool_call"):
    id: str
    status: Status
    call_id: str
    name: str
    input: str
    namespace: str | msgspec.UnsetType = msgspec.UNSET


class ToolSearchCall(msgspec.Struct, tag="tool_search_call"):
    id: str
    status: Status
    call_id: str
    arguments: msgspec.Raw
    execution: str = "client"


Part = OutputText | ReasoningText
Item = Reasoning | Message | FunctionCall | CustomToolCall | ToolSearchCall


class InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: int
    cache_write_tokens: int = 0


class OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputDetails
    output_tokens_details: OutputDetails = OutputDetails()


class Error(msgspec.Struct):
    code: str
    message: str


class Incomplete(msgspec.Struct):
    reason: str


class Response(msgspec.Struct):
    """The response object.

    Of the request it echoes what is small. Tools and instructions, tens of kilobytes that no client reads, would go out three
    times in every stream.
    """

    id: str
    created_at: int
    model: str
    status: Status
    output: list[Item]
    object: str = "response"
    error: Error | None = None
    incomplete_details: Incomplete | None = None
    usage: Usage | None = None
    parallel_tool_calls: bool = True
    tool_choice: msgspec.Raw = msgspec.Raw(b'"auto"')
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: tuple[()] = ()
    instructions: None = None
    metadata: dict[str, str] = {}
    previous_response_id: None = None
    store: bool = False


class Event(msgspec.Struct, kw_only=True):
    """An event of a stream; it gets its number when it is sent."""

    sequence_number: int = -1

    def line(self, number: int) -> bytes:
        """The server-sent event."""
        self.sequence_number = number
        return b"event: %b\ndata: %b\n\n" % (str(self.__struct_config__.tag).encode(), encode(self))


class Created(Event, tag="response.created"):
    response: Response


class InProgress(Event, tag="response.in_progress"):
    response: Response


class Completed(Event, tag="response.completed"):
    response: Response


class CutShort(Event, tag="response.incomplete"):
    response: Response


class Failed(Event, tag="response.failed"):
    response: Response


class ItemAdded(Event, tag="response.output_item.added"):
    output_index: int
    item: Item


class ItemDone(Event, tag="response.output_item.done"):
    output_index: int
    item: Item


class _OfItem(Event):
    item_id: str
    output_index: int


class _OfPart(_OfItem, kw_only=True):
    content_index: int = 0


class PartAdded(_OfPart, tag="response.content_part.added"):
    part: Part


class PartDone(_OfPart, tag="response.content_part.done"):
    part: Part


class TextDelta(_OfPart, tag="response.output_text.delta"):
    delta: str
    logprobs: tuple[()] = ()


class TextDone(_OfPart, tag="response.output_text.done"):
    text: str
    logprobs: tuple[()] = ()


class ReasoningDelta(_OfPart, tag="response.reasoning_text.delta"):
    delta: str


class ReasoningDone(_OfPart, tag="response.reasoning_text.done"):
    text: str


class ArgumentsDelta(_OfItem, tag="response.function_call_arguments.delta"):
    delta: str


class ArgumentsDone(_OfItem, tag="response.function_call_arguments.done"):
    name: str
    arguments: str


class InputDelta(_OfItem, tag="response.custom_tool_call_input.delta"):
    delta: str


class InputDone(_OfItem, tag="response.custom_tool_call_input.done"):
    input: str
