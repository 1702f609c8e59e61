"""The boundary between a harness's API and the one turn that the rest of the proxy knows.

A dialect is one file. It reads a request body into a `Turn` (an OpenAI chat request, since that is what the engine speaks)
and words errors its own way. A dialect whose replies are not the engine's own also translates them; that step goes between
`calls.py`, which relays the engine's events, and the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from services.proxy.errors import Refused


@dataclass(frozen=True, slots=True)
class Turn:
    """One model call as the harness asked for it.

    Attributes:
        body: the OpenAI chat request, top-level fields as raw JSON.
        model: name that the harness asked for.
        stream: it wants server-sent events.
        constrained: it wants sampling under a grammar or a forced tool.
        max_tokens: most tokens that it wants in the reply, None if it set no limit.
        requested: the sampling parameters among its fields.
    """

    body: dict[str, msgspec.Raw]
    model: str
    stream: bool
    constrained: bool
    max_tokens: int | None
    requested: dict[str, Any]


class Dialect(Protocol):
    """One wire format of harnesses. `api` names it in records."""

    @property
    def api(self) -> str:
        """Name of the dialect, as it stands in `CallRecorded.api`."""
        ...

    def read(self, body: bytes) -> Turn:
        """The turn that a request body asks for.

        Raises:
            Refused: with status 400, saying what is wrong with it.
        """
        ...

    def error(self, error: Refused) -> bytes:
        """The body of an error response (JSON)."""
        ...

    def error_event(self, error: Refused) -> bytes:
        """The server-sent event that reports an error once a stream has begun."""
        ...
