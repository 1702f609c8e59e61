"""Logging: stdlib, one JSON formatter for files, readable text for a terminal; run, rollout and call ids come from context."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

import orjson

from shared.rotation import MB, Bound, RotatingHandler

_context: ContextVar[dict[str, str]] = ContextVar("openforge_log", default={})  # noqa: B039 - never mutated, always replaced

Style = Literal["text", "json"]
HIDDEN = "[SECRET]"
BOUND = Bound(32 * MB, 3)
_SHORTEST = 6
_LOOKS_SECRET = re.compile(
    r"(/run/)[A-Za-z0-9_-]{43}"  # of a session
    r"|(\b[Bb]earer )[^\s\"',]{8,}"
    r"|([a-z]://[^\s/:@]*:)[^\s/@]+(?=@)"
    r"|\bSU[A-Z2-7]{56}\b"  # of a user of the bus
)


class log_context:
    """Adds ids (`run`, `rollout`, `call`) to every record that is logged inside."""

    __slots__ = ("_ids", "_token")

    def __init__(self, **ids: str) -> None:
        self._ids = ids

    def __enter__(self) -> None:
        self._token = _context.set(_context.get() | self._ids)

    def __exit__(self, *_: object) -> None:
        _context.reset(self._token)


class Hiding:
    """Takes secrets out of texts: those that are known, and what looks like one of ours.

    Args:
        secrets: known ones; what is shorter than six characters is no secret.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({s for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        return _LOOKS_SECRET.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    return "".join(before for before in found.groups() if before) + HIDDEN


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, message, the context's ids, and the exception if there is one."""

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        super().__init__()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "at": round(record.created, 3), "level": record.levelname.lower(), "logger": record.name,
            "message": self._hide(record.getMessage()), **_context.get(),
        }  # fmt: skip
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            entry["exception"] = {"type": type(error).__name__, "message": self._hide(str(error))}
            entry["traceback"] = self._hide(self.formatException(record.exc_info))
        return orjson.dumps(entry).decode()


class TextFormatter(logging.Formatter):
    """`12:30:01 proxy WARNING message [rollout=r1]`."""

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        super().__init__("%(asctime)s %(name)s %(levelname)s %(message)s", "%H:%M:%S")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{k}={v}" for k, v in _context.get().items())
        return self._hide(super().format(record)) + (f" [{ids}]" if ids else "")


def setup_logging(
    file: Path | None = None, style: Style = "text", secrets: Iterable[str] = (), level: int = logging.INFO,
    bound: Bound = BOUND,
) -> None:  # fmt: skip
    """Sends what is logged to stderr, and everything from `level` up to `file` as JSON lines.

    Args:
        file: made with its folder; None for none.
        style: `text`: warnings and worse go to stderr, readable, and all if there is no file. `json`: all goes there, as in
            the file, for whoever collects what containers say.
        secrets: that no line may hold.
        level: the lowest.
        bound: how much the file may hold.
    """
    hide = Hiding(secrets)
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.WARNING if file and style == "text" else level)
    console.setFormatter(TextFormatter(hide) if style == "text" else JsonFormatter(hide))
    handlers: list[logging.Handler] = [console]
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        to_file = RotatingHandler(file, bound)
        to_file.setFormatter(JsonFormatter(hide))
        handlers.append(to_file)
    logging.basicConfig(level=level, handlers=handlers, force=True)
    for noisy in ("aiohttp.access", "nats", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
