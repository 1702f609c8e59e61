"""What the gateway answers when it cannot serve a call. A dialect puts it in its own shape."""

from __future__ import annotations

from shared.errors import ForgeError

RETRY_AFTER_S = 1
"""What callers are told to wait before they try again, in seconds."""


class Refused(ForgeError):
    """A request that ends with an error of ours.

    Attributes:
        status: HTTP status.
        kind: short machine-readable name of the error.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` where trying again can help."""
        return {"retry-after": str(RETRY_AFTER_S)} if self.status in (429, 502, 503) else {}


class EngineRefused(Refused):
    """The engine turned the request down (4xx); its own words go to the harness."""

    def __init__(self, status: int, message: str) -> None:
        too_long = "maximum context length" in message
        super().__init__(status, "context_length_exceeded" if too_long else "invalid_request", message)


class Unreachable(Refused):
    """503: there is no connection to an engine to be had; it has seen nothing of the call."""

    def __init__(self, message: str) -> None:
        super().__init__(503, "unavailable", message)


class ClientLeft(ForgeError):
    """The harness hung up before its reply was whole."""


def bad_request(message: str) -> Refused:
    """400: the request cannot be understood or is not supported."""
    return Refused(400, "invalid_request", message)


def unavailable(message: str) -> Refused:
    """503: something that the proxy depends on does not answer; trying again may help."""
    return Refused(503, "unavailable", message)


def broken(message: str) -> Refused:
    """502: the engine answered, but not with something that can be recorded."""
    return Refused(502, "bad_engine_answer", message)
