"""Bad messages of every kind, for every message type. Each of them is one that no consumer can handle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from shared.events import MESSAGES, Message, RolloutCancel, RunStart, TokenCounts, encode
from shared.subjects import pattern_of, subject_of

Json = dict[str, Any]
Bad = dict[str, tuple[str, bytes]]
"""Subject and body by what is wrong with them."""

_REQUIRED: Json = {
    "stage": "s", "step": 1, "version": 1, "metrics": {}, "label": "before", "success": 0.5, "episodes": 1, "ok": True,
    "rollout_id": "stray-r0", "group_id": "stray", "group_size": 2, "task": "t", "harness": "h", "sandbox": "process",
    "reward": 0.5, "limit_s": 1.0, "reason": "r", "task_dir": "/nowhere", "session_id": "stray-r0-a1", "seq": 1,
    "api": "openai.chat", "model": "m", "prompt_len": 1, "prompt_delta": b"\1\0\0\0", "prompt_digest": "",
    "completion": b"\2\0\0\0", "logprobs": b"\0\0\0\0", "finish_reason": "stop", "weight_version_start": 0,
    "weight_version_end": 0, "calls": 1, "rows": 1, "tokens": TokenCounts(), "task_id": "stray",
}  # fmt: skip
_FREE = ("tools",)
"""Fields that may hold any JSON."""
_NESTED = {
    "tokens": ['{"sampled": -1}', '{"reasons": {"cut": -1}}'],
    "trajectories": ["[null]", '[{"rollout_id": "a.b"}]'],
    "ref": ['{"key": "k", "size": -1, "sha256": "00"}', '{"key": "k", "size": 1, "sha256": "k"}'],
    "errored": ["[0]", "[null]"],
    "outcomes": ['{"finished": -1}'],
    "at": ["1e300", "-1"],
}
_DEEP = 20_000


def sample(kind: type[Message], run_id: str, **fields: Any) -> Message:
    """A well-formed message of a type, about something that nobody knows."""
    names = [f.name for f in msgspec.structs.fields(kind) if f.required and f.name != "run_id"]
    return kind(run_id=run_id, at=1.0, **{**{name: _REQUIRED[name] for name in names}, **fields})


def bad(kind: type[Message], run_id: str) -> Bad:
    """What nobody can handle on the subject of a message type."""
    message = sample(kind, run_id)
    subject, body = subject_of(message), encode(message)
    other = sample(RunStart if kind is not RunStart else RolloutCancel, run_id)
    bodies = {
        "empty": b"", "no text": b"\xff\xfe\x00", "no json": b"{'type'}", "no object": b"[]", "null": b"null", "no type": b"{}",
        "half": body[: len(body) // 2], "text behind": body + b"}", "other type": encode(other),
        "deep": b"[" * _DEEP, "deep inside": body[:-1] + b',"x":' + b"[" * _DEEP + b"]" * _DEEP + b"}",
        **dict(_spoilt(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))),
    }  # fmt: skip
    elsewhere = {
        "other run": pattern_of(kind, run_id, message.key), "other key": pattern_of(kind, run_id, "another"),
        "odd key": pattern_of(kind, run_id, "a_b"), "key of another script": pattern_of(kind, run_id, "ключ"),
    }  # fmt: skip
    foreign = encode(sample(kind, f"{run_id}-2"))
    strays = {name: (place, foreign if name == "other run" else body) for name, place in elsewhere.items()}
    return {name: (subject, content) for name, content in bodies.items()} | strays


def everything(run_id: str) -> Iterator[tuple[str, str, bytes]]:
    """Type and fault, subject, body: all that is wrong with all types."""
    for kind in MESSAGES:
        for fault, (subject, body) in bad(kind, run_id).items():
            yield f"{kind.__name__}: {fault}", subject, body


def strays(run_id: str) -> list[str]:
    """Subjects that no type has: of a run, and such as no message of ours could have."""
    kinds = (f"evt.run.dreamt.{run_id}.k", f"cmd.rollout.dreamt.{run_id}.k", f"evt.call.recorded.{run_id}.k.more")
    return [f"forge.v1.{tokens}" for tokens in (*kinds, run_id, f"evt.{run_id}", f"a.b.c.{run_id}", f"{run_id}.\x0bx\x0c")]


def _spoilt(fields: dict[str, msgspec.Raw]) -> Iterator[tuple[str, bytes]]:
    """A body with one thing wrong in it: a field of a wrong type or beyond its bounds, or one too few."""
    texts = {name: bytes(raw).decode() for name, raw in fields.items()}
    yield "unknown type", _object(texts | {"type": '"call.dreamt"'})
    yield from ((f"no {name}", _object({n: t for n, t in texts.items() if n != name})) for name in ("type", "run_id"))
    for name, text in texts.items():
        yield from ((f"{name}: {wrong[:20]}", _object(texts | {name: wrong})) for wrong in _wrong(name, text))


def _wrong(name: str, text: str) -> list[str]:
    """JSON, or nearly JSON, that a field cannot have which now has the JSON `text`."""
    if name in _FREE:
        return []
    wrong = ["[1]" if text.startswith("{") else '{"a": 1}']
    if text[0].isdecimal():
        wrong += ['"1"', "NaN", "Infinity", "1e999", "9" * 5000]
        wrong += ["-1e30"] if name != "reward" else []
    if text.isdecimal():
        wrong += ["-1", "1" + "0" * 30, "1.5"]
    if name.endswith("_id"):
        wrong += [f'"{odd}"' for odd in ("", "a.b", "a b", "a_b", ">", "x" * 121, "\\ud800", "a\\n", "ä")]
    if name in ("prompt_delta", "completion", "logprobs"):
        wrong.append('"no base64!"')
    return wrong + _NESTED.get(name, [])


def _object(texts: dict[str, str]) -> bytes:
    return ("{" + ",".join(f'"{name}":{text}' for name, text in texts.items()) + "}").encode()
