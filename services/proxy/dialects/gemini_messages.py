"""Gemini's conversation as OpenAI chat messages."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from services.proxy.dialects.arguments import as_text
from services.proxy.dialects.gemini_parts import Blob, Content, FunctionCall, FunctionResponse, Part
from services.proxy.dialects.terms import Call, CalledFunction, ImagePart, ImageUrl, Message, TextPart, content, raw
from services.proxy.dialects.terms import Part as ChatPart
from services.proxy.errors import bad_request

_string = msgspec.json.Decoder(str)


class _Calls:
    """Ids of function calls, so that answers find theirs. A call without one gets one by its place in the conversation, the
    same in every request that repeats it."""

    def __init__(self) -> None:
        self._made = 0
        self._open: list[tuple[str, str]] = []  # id and name of each call of the last turn that has no answer yet

    def turn(self) -> None:
        """A turn of the model begins: calls of the one before it are over."""
        self._open.clear()

    def made(self, call: FunctionCall) -> str:
        """The id of a call."""
        self._made += 1
        self._open.append((call.id or f"call_{self._made}", call.name))
        return self._open[-1][0]

    def answered(self, response: FunctionResponse) -> str:
        """The id of the call that is answered: the one that the answer names, or else the first open one of its function."""
        for at, (call_id, name) in enumerate(self._open):
            if call_id == response.id or (response.id is None and name == response.name):
                return self._open.pop(at)[0]
        if response.id is None:
            raise bad_request(f"the functionResponse of {response.name!r} answers no functionCall of the turn before it")
        return response.id


def system_message(parts: list[Part]) -> Message:
    """The system instruction."""
    return Message(role="system", content=content([_text(part, "systemInstruction") for part in parts]))


def chat_messages(contents: list[Content]) -> Iterator[Message]:
    """The conversation in chat terms.

    Raises:
        Refused: 400, a part is not of its side of the conversation.
    """
    calls = _Calls()
    for said in contents:
        if said.role == "model":
            yield _assistant_message(said.parts, calls)
        else:
            yield from _user_messages(said.parts, calls)


def _user_messages(parts: list[Part], calls: _Calls) -> Iterator[Message]:
    """Answers come first, one message each. The media in them go to the user's message: few chat templates have a place for
    them in a tool's."""
    rest: list[ChatPart] = []
    answers = 0
    for part in parts:
        if part.function_response is not None:
            yield Message("tool", _output(part.function_response), tool_call_id=calls.answered(part.function_response))
            rest += [_image(media.inline_data) for media in part.function_response.parts]
            answers += 1
        elif part.inline_data is not None:
            rest.append(_image(part.inline_data))
        else:
            rest.append(_text(part, "a user's content"))
    if rest or not answers:
        yield Message("user", content(rest))


def _assistant_message(parts: list[Part], calls: _Calls) -> Message:
    texts, thoughts, made = list[str](), list[str](), list[Call]()
    calls.turn()
    for part in parts:
        if part.function_call is not None:
            call = part.function_call
            made.append(Call(calls.made(call), CalledFunction(call.name, as_text(raw(call.args)))))
        else:
            (thoughts if part.thought else texts).append(_text(part, "a model's content").text)
    # a reply is told in many parts, with nothing between their texts
    return Message("assistant", "".join(texts), "".join(thoughts), made)


def _text(part: Part, where: str) -> TextPart:
    for field, value in (
        ("inlineData", part.inline_data),
        ("functionCall", part.function_call),
        ("functionResponse", part.function_response),
    ):
        if value is not None:
            raise bad_request(f"{where} cannot hold a part with {field}")
    return TextPart(part.text or "")


def _image(blob: Blob) -> ImagePart:
    if not blob.mime_type.startswith("image/"):
        raise bad_request(f"inlineData of type {blob.mime_type!r} cannot be carried, only images can")
    return ImagePart(ImageUrl(f"data:{blob.mime_type};base64,{blob.data}"))


def _output(answer: FunctionResponse) -> str:
    """What a function answered: the value of `output` where that is all there is, as the API has it, or else the object."""
    response = answer.response
    output = response["output"] if response.keys() == {"output"} else raw(response)
    return _string.decode(output) if bytes(output).startswith(b'"') else bytes(output).decode()
