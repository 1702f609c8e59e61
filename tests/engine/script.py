"""What the scripted engine says, and how it fails.

Without a script it follows orders: the last user message may hold lines ``DO: <shell command>``; turn by turn it calls the
tool `bash` with the next of them, and after the last one it answers ``done``.

A script is a JSON object ``{"rules": [...]}``; the first rule that fits a chat call says what is different about it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import msgspec

from tests.engine.bytes_tokenizer import markup

Json = dict[str, Any]


class Call(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A tool call: the tool's name, and its arguments."""

    name: str
    arguments: Json


class Rule(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is different about some chat calls.

    Attributes:
        calls: numbers of the calls it is for, counted from 1 as they arrive; empty for all.
        contains: it is only for calls whose last user message contains this.
        text: what is said in place of the default; `{number}` in it becomes the number of the call, `{seed}` its seed.
        find: regular expression that is searched for in the last user message; `text` may name its groups, as in `\\1`.
        tool_calls: the tools that are called in place of the default.
        delay_s: before the first token, in seconds.
        token_delay_s: before every further token.
        status: answer with this HTTP status and sample nothing.
        drop_after: break the connection after so many tokens.
        error_after: report an error inside the stream after so many tokens.
        spoil: give one log-prob too few, one that is not a number, no prompt ids, sample from another prompt than was sent, or
            give the log-probs of a grammar that allows nothing else.
    """

    calls: list[int] = []
    contains: str = ""
    text: str | None = None
    find: str = ""
    tool_calls: list[Call] = []
    delay_s: float = 0.0
    token_delay_s: float = 0.0
    status: int = 200
    drop_after: int | None = None
    error_after: int | None = None
    spoil: Literal["", "short_logprobs", "nan_logprob", "no_prompt_ids", "other_prompt", "grammar"] = ""


class Script(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rules, in the order in which they are tried."""

    rules: list[Rule] = []

    def rule(self, number: int, messages: list[Json]) -> Rule:
        """The rule of a call."""
        said = _said(messages)
        for rule in self.rules:
            if (not rule.calls or number in rule.calls) and rule.contains in said:
                return rule
        return Rule()


def answer(rule: Rule, number: int, body: Json) -> tuple[str, list[Json]]:
    """(text, tool calls) of a call by its rule."""
    messages = body["messages"]
    if rule.text is None and not rule.tool_calls:
        return policy(messages)
    calls = [_tool_call(f"call-{number}-{i}", call.name, json.dumps(call.arguments)) for i, call in enumerate(rule.tool_calls)]
    return _filled(rule, messages).replace("{number}", str(number)).replace("{seed}", str(body.get("seed"))), calls


def policy(messages: list[Json]) -> tuple[str, list[Json]]:
    """(text, tool calls) that follow from a conversation by default."""
    last_user = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    orders = [line[3:].strip() for line in _said(messages).splitlines() if line.startswith("DO:")]
    turn = sum(m["role"] == "assistant" for m in messages[last_user + 1 :])
    if turn >= len(orders):
        return "done", []
    arguments = json.dumps({"command": orders[turn]})
    return "", [_tool_call(f"call-{turn}", "bash", arguments)]


def sampled_text(text: str, tool_calls: list[Json]) -> str:
    """What the model writes to say a text and call tools."""
    return text + "".join(map(markup, tool_calls))


def _tool_call(call_id: str, name: str, arguments: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _filled(rule: Rule, messages: list[Json]) -> str:
    text = rule.text or ""
    if not rule.find:
        return text
    found = re.search(rule.find, _said(messages))
    return found.expand(text) if found else f"nothing fits {rule.find!r}"


def _said(messages: list[Json]) -> str:
    content = next((m.get("content") for m in reversed(messages) if m["role"] == "user"), "")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
