"""Gemini's API, which Gemini CLI speaks."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote

from services.proxy.dialects import gemini_request
from services.proxy.dialects.base import Target, Turn
from services.proxy.dialects.gemini_writer import GeminiWriter
from services.proxy.dialects.terms import encode
from services.proxy.errors import Refused, bad_request

_ROUTE = re.compile(r"/v1(?:beta|alpha)?/models/(?P<model>.+):(?P<method>generateContent|streamGenerateContent|countTokens)")

_ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini:
    """`POST /v1beta/models/{model}:generateContent`, `:streamGenerateContent` and `:countTokens`."""

    api = "gemini"
    breaks_off = False

    def takes(self, path: str) -> bool:
        """Those paths, in every version of the API."""
        return _ROUTE.fullmatch(path) is not None

    def read(self, body: bytes, target: Target) -> Turn:
        """The turn of a request.

        Raises:
            Refused: 400, it is malformed or something in it cannot be carried.
        """
        route = _ROUTE.fullmatch(target.path)
        if route is None:
            raise bad_request(f"{target.path} is not a route of Gemini's")
        model = unquote(route["model"])
        if route["method"] == "countTokens":
            return gemini_request.read_count(body, model, self.counted)
        streamed = route["method"] == "streamGenerateContent"
        events = parse_qs(target.query).get("alt") == ["sse"]
        # Without events a stream is a JSON array that comes in pieces. It is given as an array of one, once it is whole.
        return gemini_request.read(body, model, stream=streamed and events, array=streamed and not events)

    def writer(self, turn: Turn, reply_id: str, created: int) -> GeminiWriter:
        """Words the reply; Gemini's replies need not say when they were created."""
        return GeminiWriter(turn.model, reply_id, array=turn.private is True)

    def counted(self, tokens: int) -> bytes:
        """`{"totalTokens": n}`."""
        return encode({"totalTokens": tokens})

    def error(self, error: Refused) -> bytes:
        """`{"error": {"code", "message", "status"}}`."""
        status = _ERRORS.get(error.status, "INTERNAL" if error.status >= 500 else "FAILED_PRECONDITION")
        return encode({"error": {"code": error.status, "message": str(error), "status": status}})

    def error_event(self, error: Refused) -> bytes:
        """The error body alone: clients look for errors outside of events. As an event it is a reply without candidates, after
        which Gemini CLI may take the stream for whole.

        When it arrives together with the event before it, Google's library does not see it as an error, but finds at an orderly
        end of the stream that something is left over: Gemini CLI tries again after either, and not after a broken connection.
        """
        return self.error(error) + b"\r\n\r\n"
