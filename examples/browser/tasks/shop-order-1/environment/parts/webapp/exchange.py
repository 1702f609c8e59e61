"""What a site is asked and what it answers, apart from HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        query, form: what came with the address and what was sent; of several values of a name the last.
        session: what the site remembers of this browser; it may be changed.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    session: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A page, or with `to` the address that the browser goes to next."""

    body: str = ""
    status: int = 200
    to: str = ""


Handler = Callable[..., Answer]
Routes = Mapping[str, Handler]
"""Handlers by method and path, such as `POST /item/*`; each `*` is one part of the path and an argument."""


def answer(routes: Routes, asked: Asked, missing: Callable[[], Answer]) -> Answer:
    """What the route that fits says; `missing` if none does."""
    for route, handler in routes.items():
        pattern = re.escape(route).replace(r"\*", "([^/]+)").replace(r"\ ", " ")
        if match := re.fullmatch(pattern, f"{asked.method} {asked.path}"):
            return handler(asked, *match.groups())
    return missing()
