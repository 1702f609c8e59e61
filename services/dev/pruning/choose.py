"""Which run folders may go. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.errors import ConfigError

QUIET_S = 900.0
"""A run that wrote something within so many seconds counts as one that runs: services say there that they live, wherever they
run, and other commands write as they go."""


@dataclass(frozen=True, slots=True)
class Found:
    """A run folder.

    Attributes:
        run_id: its name.
        size: bytes on the disk.
        written: unix time at which something in it was last written.
        runs: its stack is alive.
    """

    run_id: str
    size: int
    written: float
    runs: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """What may go.

    Attributes:
        older_s: runs that wrote nothing for so many seconds; None: age is no reason.
        keep: the newest so many stay whatever else is said; None: all but those that another reason is given for.
        max_bytes: the oldest go until what is left has so many bytes at most; None: size is no reason.

    Raises:
        ConfigError: nothing is said at all.
    """

    older_s: float | None = None
    keep: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuses to guess."""
        if self.older_s is None and self.keep is None and self.max_bytes is None:
            raise ConfigError("say which runs may go: --older-than 30d, --keep 10 or --max-gb 100")


def is_alive(run: Found, now: float) -> bool:
    """Whether something may still need a run's folder."""
    return run.runs or now - run.written < QUIET_S


def chosen(found: Sequence[Found], rule: Rule, now: float) -> dict[str, str]:
    """The runs that may go, by id, with the reason, the oldest first. One that is alive never is among them."""
    oldest_first = sorted(found, key=lambda run: (run.written, run.run_id))
    kept = {run.run_id for run in oldest_first[max(0, len(oldest_first) - (rule.keep or 0)) :]}
    left = sum(run.size for run in found)
    reasons: dict[str, str] = {}
    for run in oldest_first:
        if run.run_id in kept or is_alive(run, now):
            continue
        if reason := _reason(run, rule, now, left):
            reasons[run.run_id] = reason
            left -= run.size
    return reasons


def _reason(run: Found, rule: Rule, now: float, left: int) -> str:
    if rule.older_s is not None and now - run.written > rule.older_s:
        return "too old"
    if rule.max_bytes is not None and left > rule.max_bytes:
        return "too much in all"
    if rule.older_s is None and rule.max_bytes is None:
        return f"not among the newest {rule.keep}"
    return ""
