"""The only place that writes subject strings: ``forge.v1.<evt|cmd>.<noun>.<verb>.<run_id>.<key>``."""

from __future__ import annotations

from functools import lru_cache

from shared.events import COMMANDS, Message, tag_of
from shared.ids import check_id

ROOT = "forge.v1"
DEAD = f"{ROOT}.dead"


def _kind(message_type: type[Message]) -> str:
    return "cmd" if message_type in COMMANDS else "evt"


def subject_of(message: Message) -> str:
    """Where a message is published.

    Raises:
        InvalidId: its run id or key is no legal subject token.
    """
    return _subject(type(message), message.run_id, message.key)


@lru_cache(4096)  # a rollout has many messages of a type
def _subject(kind: type[Message], run_id: str, key: str) -> str:
    return f"{ROOT}.{_kind(kind)}.{tag_of(kind)}.{check_id(run_id, 'run id')}.{check_id(key, 'key')}"


def pattern_of(message_type: type[Message], run_id: str = "*", key: str = "*") -> str:
    """The subscription that matches a message type, in one run or in all."""
    return f"{ROOT}.{_kind(message_type)}.{tag_of(message_type)}.{run_id}.{key}"


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription matches a subject (or a narrower subscription).

    >>> matches("forge.v1.evt.*.recorded.>", "forge.v1.evt.call.recorded.r1.k1")
    True
    """
    wanted, tokens = pattern.split("."), subject.split(".")
    rest = wanted[-1] == ">"
    if rest:
        wanted.pop()
    fits = len(tokens) > len(wanted) if rest else len(tokens) == len(wanted)
    return fits and all(w in ("*", t) for w, t in zip(wanted, tokens, strict=False))


def dead_subject(subject: str) -> str:
    """Where a message that nobody could handle is kept."""
    return f"{DEAD}.{subject.removeprefix(ROOT + '.')}"


DEAD_OF_NO_RUN = tuple(f"{DEAD}.{tokens}" for tokens in ("*", "*.*", "*.*.*", "*.*.*.*", "*.*.*.*.*.>"))
"""Where dead letters are whose subject is none that a message of ours could have."""


def kind_in(subject: str) -> str:
    """The message type that a subject names.

    >>> kind_in("forge.v1.evt.call.recorded.r1.k1")
    'call.recorded'
    """
    return ".".join(subject.removeprefix(ROOT + ".").split(".")[1:3])


def living_subject(subject: str) -> str:
    """Where a message was published that is kept on a dead subject.

    >>> living_subject(dead_subject("forge.v1.evt.call.recorded.r1.k1"))
    'forge.v1.evt.call.recorded.r1.k1'
    """
    return f"{ROOT}.{subject.removeprefix(DEAD + '.')}"


def tap_pattern(text: str, run_id: str = "*", key: str = "*") -> str:
    """Turns what a person types into a subscription: `` `` all, ``call``, ``call.recorded``, ``evt.call.*``, or a full subject.

    >>> tap_pattern("")
    'forge.v1.*.*.*.*.*'
    >>> tap_pattern("call", "r1")
    'forge.v1.*.call.*.r1.*'
    >>> tap_pattern("call", "r1", "rollout-7")
    'forge.v1.*.call.*.r1.rollout-7'
    """
    if text.startswith((ROOT + ".", "forge.")):
        return text
    tokens = [t for t in text.split(".") if t and t != ">"]
    if not tokens or tokens[0] not in ("evt", "cmd", "*"):
        tokens.insert(0, "*")
    tokens += ["*"] * (3 - len(tokens))
    return ".".join([ROOT, *tokens[:3], run_id, key])
