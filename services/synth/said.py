"""What agent and verifier of a rollout printed last."""

from __future__ import annotations

from pathlib import Path

_CHARS = 1500
_PRINTED = "sandbox"
"""Log of a container, which has agent and verifier in one."""
STATUS_LINE = "OPENFORGE-STATUS "
"""Begins the last line of a container's log, which a runner leaves there."""


def said(record: Path) -> str:
    """The ends of the logs in a rollout's folder; empty if there are none."""
    logs = [log for name in ("agent", "verify", _PRINTED) for log in sorted(record.glob(f"{name}*.log"))]
    return "\n".join(text for log in logs if (text := _end_of(log)))


def _end_of(log: Path) -> str:
    text = log.read_text(errors="replace")
    if log.stem == _PRINTED:
        return text.rpartition(f"\n{STATUS_LINE}")[0][-2 * _CHARS :].strip() or text[-_CHARS:].strip()
    return text[-_CHARS:].strip()
