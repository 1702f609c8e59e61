"""Rules that say which model calls of a harness are something else than its main conversation. They are data of its adapter."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")


class RoleRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call has `role` if all the conditions that are set hold; the first rule that fits decides.

    Regular expressions are searched for, not matched whole.

    Attributes:
        role: `sub` (a subagent's conversation), `summary` (the history is compacted), `aux` (titles, reviews) or `judge`.
        header: this request header is present (lower case).
        header_matches: each of these headers is present, and its value fits the regular expression.
        system: the system text fits this regular expression.
        last_user: the text of the last user message does.
        tools: `none`: the request offers no tools; `some`: it does.
        model: the model name that was asked for fits this regular expression.
    """

    role: Literal["sub", "summary", "aux", "judge"]
    header: str = ""
    header_matches: dict[str, str] = {}
    system: str = ""
    last_user: str = ""
    tools: Literal["", "none", "some"] = ""
    model: str = ""

    def __post_init__(self) -> None:
        """Checks what types cannot say; msgspec turns a ValueError into its ValidationError."""
        headers = [*filter(None, [self.header]), *self.header_matches]
        patterns = [self.system, self.last_user, self.model, *self.header_matches.values()]
        if not (headers or any(patterns) or self.tools):
            raise ValueError("a role without a condition would fit every call; set header, system, last_user, tools or model")
        for name in headers:
            if not _TOKEN.fullmatch(name):
                raise ValueError(f"header {name!r}: write its name in lower case")
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as e:
                raise ValueError(f"regular expression {pattern!r}: {e}") from None
