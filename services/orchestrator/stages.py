"""How far an attempt's sandbox has come, and how long it may take. Pure: times are seconds of a clock that the caller reads.

schedule ─▶ pull ─▶ boot ─▶ run ─▶ ended      forwards only; a stage whose limit passes ends the attempt

In `run` the runner inside keeps the limits of the agent (wall clock and idle) and of the verifier; the limit here is the
time after which it must have been done with all of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from services.orchestrator.backends.port import Stage
from shared.config import StagesConfig
from shared.errors import BootTimeout, Cancelled, PullTimeout, RunTimeout, ScheduleTimeout, StageTimeout

ORDER: tuple[Stage, ...] = ("schedule", "pull", "boot", "run", "ended")
CANCEL_S = 10.0
"""How long a cancelled sandbox may take to end before it is given up and cleared away as it is."""
_LATE: dict[Stage, tuple[type[StageTimeout], str]] = {
    "schedule": (ScheduleTimeout, "no machine was found for the sandbox within {:g} s (orchestrator.stages.schedule_s)"),
    "pull": (PullTimeout, "the sandbox's image was not there within {:g} s (orchestrator.stages.pull_s)"),
    "boot": (BootTimeout, "the sandbox's runner did not run within {:g} s (orchestrator.stages.boot_s)"),
    "run": (RunTimeout, "the sandbox did not end within {:g} s, the limits of agent and verifier together"),
}


def limits_of(config: StagesConfig, run_s: float) -> dict[Stage, float]:
    """Seconds that each stage may take."""
    return {"schedule": config.schedule_s, "pull": config.pull_s, "boot": config.boot_s, "run": run_s}


@dataclass(frozen=True, slots=True)
class Course:
    """The way of one sandbox, or of two that follow each other.

    Attributes:
        limits: seconds that a stage may take.
        since: when the present stage began.
        stage: the present one.
        spent: seconds in each stage that is over.
        cancelled: when its end was asked for.
    """

    limits: Mapping[Stage, float]
    since: float
    stage: Stage = "schedule"
    spent: Mapping[Stage, float] = field(default_factory=dict)
    cancelled: float | None = None

    def at(self, stage: Stage, now: float) -> Course:
        """The sandbox was seen in that stage. One that is behind the present stage is old news, and changes nothing."""
        if ORDER.index(stage) <= ORDER.index(self.stage):
            return self
        spent = self.spent.get(self.stage, 0.0) + now - self.since
        return replace(self, stage=stage, since=now, spent={**self.spent, self.stage: spent})

    def again(self, limits: Mapping[Stage, float], now: float) -> Course:
        """The way of the attempt's next sandbox; what the earlier one took counts too."""
        return replace(self, limits=limits, since=now, stage="schedule")

    def cancel(self, now: float) -> Course:
        """Its end was asked for."""
        return self if self.cancelled is not None else replace(self, cancelled=now)

    @property
    def until(self) -> float:
        """When the present stage has to be over."""
        until = self.since + self.limits[self.stage]
        return until if self.cancelled is None else min(until, self.cancelled + CANCEL_S)

    def overdue(self) -> StageTimeout | Cancelled:
        """What it means that `until` has passed."""
        if self.cancelled is not None and self.until == self.cancelled + CANCEL_S:
            return Cancelled("its sandbox did not end when asked to, and was killed")
        kind, text = _LATE[self.stage]
        return kind(text.format(self.limits[self.stage]))
