"""Which of a harness's agents a call belongs to, by the rules of its adapter. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from services.proxy.dialects.base import Turn
from shared.events.calls import Role
from shared.roles import RoleRule


class Part(NamedTuple):
    """A call's role, and the id of its agent where the harness sends one."""

    role: Role
    thread: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None


_decoder = msgspec.json.Decoder(_Message)


def part_of(rules: Sequence[RoleRule], turn: Turn, headers: Mapping[str, str]) -> Part:
    """The role of the first rule that fits, `main` if none does."""
    for rule in rules:
        if _fits(rule, turn, headers):
            return Part(rule.role, headers.get(rule.header, ""))
    return Part("main")


def _fits(rule: RoleRule, turn: Turn, headers: Mapping[str, str]) -> bool:
    """Whether all conditions of a rule hold; those that need the messages' text come last."""
    return (
        (not rule.header or rule.header in headers)
        and all(name in headers and re.search(p, headers[name]) for name, p in rule.header_matches.items())
        and (not rule.tools or (rule.tools == "some") == ("tools" in turn.fields))
        and re.search(rule.model, turn.model) is not None
        and (not rule.system or re.search(rule.system, _text(turn, "system", latest=False)) is not None)
        and (not rule.last_user or re.search(rule.last_user, _text(turn, "user", latest=True)) is not None)
    )


def _text(turn: Turn, role: str, *, latest: bool) -> str:
    """The text of the first, or the latest, message of a role."""
    for raw in reversed(turn.messages) if latest else turn.messages:
        message = _decoder.decode(raw)
        if message.role == role:
            content = message.content or ""
            return content if isinstance(content, str) else "\n".join(str(p.get("text", "")) for p in content)
    return ""
