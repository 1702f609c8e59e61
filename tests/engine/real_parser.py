"""What vLLM's parsers (qwen3 reasoning, hermes tools) make of sampled tokens: increments of thinking, text and tool calls.

Markup is told by its tokens, and held back with an empty increment. Arguments pass as the model wrote them, valid or not.
Others of vLLM's reasoning parsers take thinking for text where the prompt has a thought that was closed.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.engine import real_tokenizer as tokenizer

Json = dict[str, Any]

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"(?P<name>[^"]*)"\s*,\s*"arguments"\s*:\s*')
_CLOSING = "} \n"


class Parser:
    """Reads one reply, token by token.

    Args:
        reply: its number.
        misreads: thinking is text.

    Attributes:
        calls: tool calls so far.
    """

    def __init__(self, reply: int, *, misreads: bool = False) -> None:
        self.calls: list[Json] = []
        self._reply = reply
        self._place = "content"
        self._ids: list[int] = []
        self._said = 0
        marks = (*tokenizer.MARKUP, "<|im_end|>")
        self._marks = {tokenizer.token(tag): tag for tag in marks if not (misreads and tag.endswith("think>"))}

    def feed(self, token: int) -> Json:
        """The increment (`delta`) that a token brings; empty while something is held back."""
        match self._marks.get(token):
            case "<think>":
                self._enter("reasoning")
            case "</think>":
                self._enter("content")
            case "<tool_call>":
                self._enter("tool")
            case "</tool_call>":
                delta = self._arguments(whole=True)
                self._enter("content")
                return delta
            case "<|im_end|>":
                return {}
            case _:
                self._ids.append(token)
                return self._arguments(whole=False) if self._place == "tool" else self._text()
        return {}

    def _enter(self, place: str) -> None:
        self._place, self._ids, self._said = place, [], 0

    def _text(self) -> Json:
        text = tokenizer.decode(self._ids)
        if text.endswith("\ufffd"):  # in the middle of a character
            return {}
        new, self._said = text[self._said :], len(text)
        if self._place == "content" and self.calls and not new.strip():  # between two calls
            return {}
        return {self._place: new} if new else {}

    def _arguments(self, *, whole: bool) -> Json:
        """A call is announced with its name; what could be the end of the object around the arguments is held back."""
        text = tokenizer.decode(self._ids)
        head = _HEAD.match(text)
        if head is None or text.endswith("\ufffd"):
            return {}
        part: Json = {}
        if not self._said:
            part = {"id": f"call-{self._reply}-{len(self.calls)}", "type": "function"}
            self.calls.append({**part, "function": {"name": head["name"], "arguments": ""}})
        body = text.rstrip().removesuffix("}") if whole else text.rstrip(_CLOSING)
        start = max(self._said, head.end())  # blanks before the arguments belong to the head
        new, self._said = body[start:], max(start, len(body))
        self.calls[-1]["function"]["arguments"] += new
        if not new and not part:
            return {}
        function = {"name": head["name"], "arguments": new} if part else {"arguments": new}
        return {"tool_calls": [{"index": len(self.calls) - 1, **part, "function": function}]}


def whole(ids: list[int], reply: int) -> Json:
    """The message of a reply that is not streamed. As in vLLM, markup that does not parse stays text, and arguments are
    written anew."""
    parser, message = Parser(reply), {"role": "assistant", "content": ""}
    for token in ids:
        for key, value in parser.feed(token).items():
            if key != "tool_calls":
                message[key] = message.get(key, "") + value
    calls = [_rewritten(call) for call in parser.calls]
    if None in calls:
        text = tokenizer.decode(ids, markers=False)
        return {"role": "assistant", "content": text.rpartition("</think>")[2]}
    return {**message, "content": message["content"] or None, **({"tool_calls": calls} if calls else {})}


def _rewritten(call: Json) -> Json | None:
    try:
        arguments = json.dumps(json.loads(call["function"]["arguments"]), ensure_ascii=False)
    except ValueError:
        return None
    return {**call, "function": {**call["function"], "arguments": arguments}}
