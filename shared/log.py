"""Logging: stdlib, one JSON formatter for files, readable text for a terminal; run, rollout and call ids come from context."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from pathlib import Path

import orjson

_context: ContextVar[dict[str, str]] = ContextVar("openforge_log", default={})  # noqa: B039 - never mutated, always replaced


class log_context:
    """Adds ids (`run`, `rollout`, `call`) to every record that is logged inside."""

    __slots__ = ("_ids", "_token")

    def __init__(self, **ids: str) -> None:
        self._ids = ids

    def __enter__(self) -> None:
        self._token = _context.set(_context.get() | self._ids)

    def __exit__(self, *_: object) -> None:
        _context.reset(self._token)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, message, the context's ids, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "at": round(record.created, 3), "level": record.levelname.lower(), "logger": record.name,
            "message": record.getMessage(), **_context.get(),
        }  # fmt: skip
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(entry).decode()


class TextFormatter(logging.Formatter):
    """`12:30:01 proxy WARNING message [rollout=r1]`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(name)s %(levelname)s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{k}={v}" for k, v in _context.get().items())
        return super().format(record) + (f" [{ids}]" if ids else "")


def setup_logging(file: Path | None = None, level: int = logging.INFO) -> None:
    """Sends warnings and worse to stderr as text, and everything from `level` up to `file` as JSON lines."""
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.WARNING if file else level)
    console.setFormatter(TextFormatter())
    handlers: list[logging.Handler] = [console]
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        to_file = logging.FileHandler(file)
        to_file.setFormatter(JsonFormatter())
        handlers.append(to_file)
    logging.basicConfig(level=level, handlers=handlers, force=True)
    for noisy in ("aiohttp.access", "nats", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
