"""Anthropic's Messages API, which Claude Code speaks."""

from __future__ import annotations

from services.proxy.dialects import anthropic_request
from services.proxy.dialects.anthropic_writer import MessagesWriter
from services.proxy.dialects.base import Target, Turn
from services.proxy.dialects.terms import encode
from services.proxy.errors import Refused

_MESSAGES = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


class AnthropicMessages:
    """`POST /v1/messages` and `/v1/messages/count_tokens`."""

    api = "anthropic.messages"
    breaks_off = True

    def takes(self, path: str) -> bool:
        """Those two paths."""
        return path in (_MESSAGES, _COUNT)

    def read(self, body: bytes, target: Target) -> Turn:
        """The turn of a request.

        Raises:
            Refused: 400, it is malformed or something in it cannot be carried.
        """
        return anthropic_request.read(body, count=self.counted if target.path == _COUNT else None)

    def writer(self, turn: Turn, reply_id: str, created: int) -> MessagesWriter:
        """Words the reply; Anthropic's replies do not say when they were created."""
        return MessagesWriter(turn.model, reply_id)

    def counted(self, tokens: int) -> bytes:
        """`{"input_tokens": n}`."""
        return encode({"input_tokens": tokens})

    def error(self, error: Refused) -> bytes:
        """`{"type": "error", "error": {"type", "message"}, "request_id"}`.

        What harnesses look for in the message of a context overflow is Anthropic's first words; the engine's, with its figures,
        come after them.
        """
        kind = _ERRORS.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
        overflow = error.kind == "context_length_exceeded"
        message = f"prompt is too long: {error}" if overflow else str(error)
        return encode({"type": "error", "error": {"type": kind, "message": message}, "request_id": None})

    def error_event(self, error: Refused) -> bytes:
        """The error body as an `error` event."""
        return b"event: error\ndata: " + self.error(error) + b"\n\n"
