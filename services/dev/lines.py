"""Messages as one readable line each."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from shared.bus import Tapped
from shared.events import CallRecorded, GroupCompleted, Message, TokenCounts, tag_of

_HIDDEN = {"run_id", "at", "purpose", "group_id", "group_size", "session_id"}
_LONG = 100


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class _Called(msgspec.Struct, frozen=True):
    function: _Function = _Function()


class _Reply(msgspec.Struct, frozen=True):
    content: str | None = None
    tool_calls: list[_Called] | None = None


def describe_reply(reply: dict[str, Any]) -> str:
    """An assistant message in a few words: its text and the tools it called."""
    try:
        said = msgspec.convert(reply, _Reply)
    except msgspec.ValidationError as e:
        return f"(no assistant message: {e})"
    calls = [f"{c.function.name}({c.function.arguments})" for c in said.tool_calls or []]
    return _short(" ".join(filter(None, [(said.content or "").strip(), *calls])))


def plain(text: str) -> str:
    """Text in which all is escaped that a terminal would act upon, but for line breaks."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def describe(tapped: Tapped) -> str:
    """A tapped message: time, type, key, and the fields that say something."""
    if tapped.message is None:
        return plain(f"{tapped.subject}  (not a message of ours, {len(tapped.data)} bytes)")
    message = tapped.message
    clock = time.strftime("%H:%M:%S", time.localtime(message.at))
    return plain(f"{clock}  {tag_of(type(message)):<18} {message.key}  {_fields(message)}")


def as_json(tapped: Tapped) -> str:
    """A tapped message as one line of JSON, its subject included."""
    body = msgspec.json.decode(tapped.data) if tapped.message is not None else {"raw": tapped.data.decode(errors="replace")}
    return msgspec.json.encode({"subject": tapped.subject, **body}).decode()


def _fields(message: Message) -> str:
    match message:
        case CallRecorded():
            return (
                f"#{message.seq} {message.api} v{message.weight_version_start} prompt {message.prompt_len} "
                f"sampled {len(message.completion) // 4} {message.finish_reason}  {describe_reply(message.reply)}"
            )
        case GroupCompleted():
            rewards = " ".join(f"{t.reward:g}" for t in message.trajectories)
            return f"{message.task} rewards [{rewards}] tokens trained {message.tokens.trained}"
    values = {f: getattr(message, f) for f in message.__struct_fields__ if f not in _HIDDEN}
    return "  ".join(
        f"{k}={_short(_text(v))}" for k, v in values.items() if v not in ("", None, message.key) and v != [] and v != {}
    )


def _text(value: Any) -> str:
    if isinstance(value, TokenCounts):
        return f"{value.sampled} sampled, {value.trained} trained, {value.masked} masked, {value.dropped} dropped"
    return str(value)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
