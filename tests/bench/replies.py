"""What the fake engine says: bytes that are made once, and the token ids behind them.

Prompts are slices of one endless conversation per `base` (tokens of its first prompt): every turn adds the reply (200 ids) and
20 ids of a new user turn. So the prompt of turn k+1 starts with the prompt and the completion of turn k, as with a real engine.
"""

from __future__ import annotations

from functools import cache

import msgspec

REPLY_TOKENS = 200
TURN_TOKENS = 20
STOP_ID = 10_000
_ID_WIDTH = len("10000,")
"""All ids have five digits, so that a slice of the text is a slice of the ids."""

COMPLETION = [*range(20_001, 20_000 + REPLY_TOKENS), STOP_ID]
DELTA = list(range(30_000, 30_000 + TURN_TOKENS))
_USER_TURN, _GENERATION = list(range(40_000, 40_005)), list(range(40_005, 40_008))
"""What a template makes of a short user turn, and of the assistant's being about to speak."""

_PIECES = ["w000", *(f" w{n:02d}" for n in range(1, REPLY_TOKENS - 1))]
REPLY = "".join(_PIECES)
"""The text of every reply."""

_MOST_BASE, _MOST_TURNS = 100_000, 64
_PROMPT = b",".join(b"%d" % (50_000 + n % 40_000) for n in range(_MOST_BASE)) + b","
_TURNS = (b",".join(b"%d" % n for n in (*COMPLETION, *DELTA)) + b",") * _MOST_TURNS
_HEAD = b'{"id":"chatcmpl-0123456789abcdef","object":"chat.completion%s","created":1700000000,"model":"policy",'


def prompt_ids(base: int, turn: int) -> bytes:
    """The ids of a prompt as JSON numbers with commas between; `turn` counts from 0."""
    added = turn * (REPLY_TOKENS + TURN_TOKENS)
    return (_PROMPT[: base * _ID_WIDTH] + _TURNS[: added * _ID_WIDTH])[:-1]


def whole(prompt: bytes) -> bytes:
    """The body of a reply that is not streamed: 21 kB with 2,000 prompt ids."""
    return _answer() + _usage(prompt) + b',"prompt_token_ids":[' + prompt + b"]}"


def stream(prompt: bytes, *, usage: bool) -> bytes:
    """A streamed reply in HTTP chunks: the prompt ids, one event of about 323 bytes a token, the end."""
    first = b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],'
    opening = _event(_HEAD % b".chunk" + first + b'"prompt_token_ids":[' + prompt + b"]}")
    closing = _event(_HEAD % b".chunk" + b'"choices":[],' + _usage(prompt) + b"}") if usage else b""
    return opening + _token_events() + closing + _event(b"[DONE]") + b"0\r\n\r\n"


def rendered(*, replied: bool, generation: bool) -> list[int]:
    """What a template makes of a short user turn, with a reply and a new turn after it if one was made.

    Args:
        replied: whether it was.
        generation: whether the assistant is about to speak (after a reply it always is).
    """
    if replied:
        return [*_USER_TURN, *_GENERATION, STOP_ID, *DELTA]
    return [*_USER_TURN, *_GENERATION] if generation else _USER_TURN


@cache
def _token_events() -> bytes:
    return b"".join(_event(_token(n)) for n in range(REPLY_TOKENS))


def _token(n: int) -> bytes:
    last = n == REPLY_TOKENS - 1
    choice = {
        "index": 0,
        "delta": {} if last else {"content": _PIECES[n]},
        "logprobs": {"content": [_logprob(n)]},
        "finish_reason": "stop" if last else None,
        "stop_reason": None,
        "token_ids": [COMPLETION[n]],
    }
    return _HEAD % b".chunk" + b'"choices":[' + msgspec.json.encode(choice) + b"]}"


def _logprob(n: int) -> dict[str, object]:
    text = "<|im_end|>" if n == REPLY_TOKENS - 1 else _PIECES[n]
    return {"token": text, "logprob": -0.123456 - n / 1000, "bytes": list(text.encode()), "top_logprobs": []}


@cache
def _answer() -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": REPLY},
        "logprobs": {"content": [{"token": "w", "logprob": _logprob(n)["logprob"]} for n in range(REPLY_TOKENS)]},
        "finish_reason": "stop",
        "token_ids": COMPLETION,
    }
    return _HEAD % b"" + b'"choices":[' + msgspec.json.encode(choice) + b"],"


def _usage(prompt: bytes) -> bytes:
    count = (len(prompt) + 1) // _ID_WIDTH
    numbers = (count, REPLY_TOKENS, count + REPLY_TOKENS)
    return b'"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % numbers


def _event(data: bytes) -> bytes:
    """A server-sent event as one HTTP chunk, which is how vLLM sends it."""
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)
