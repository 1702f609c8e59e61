"""What an attempt took: seconds by stage, and resources. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.orchestrator.spec import PhaseStatus, Status, is_of
from services.orchestrator.stages import ORDER, Course
from shared.events import Durations, Stage, Used


@dataclass(frozen=True, slots=True)
class Account:
    """Where an attempt stood in the end, and what it took until then."""

    stage: Stage = "queue"
    durations: Durations = field(default_factory=Durations)
    used: Used = field(default_factory=Used)
    image: str = ""


def account(queue_s: float, course: Course | None = None, status: Status | None = None, image: str = "") -> Account:
    """The account of an attempt.

    Args:
        queue_s: seconds that it waited for a place.
        course: of its sandbox, if it came to that.
        status: its runner's last one, if there is one.
        image: digest of that of its agent's sandbox; empty for none.
    """
    spent = course.spent if course else {}
    phases = status["phases"] if status else {}
    durations = Durations(
        queue_s=queue_s, schedule_s=spent.get("schedule", 0.0), pull_s=spent.get("pull", 0.0), boot_s=spent.get("boot", 0.0),
        agent_s=sum(phase["seconds"] for name, phase in phases.items() if is_of("agent", name)),
        verify_s=sum(phase["seconds"] for name, phase in phases.items() if is_of("verify", name)),
    )  # fmt: skip
    return Account(_stage(course, "agent" in phases), durations, _used(list(phases.values())), image)


def _used(phases: list[PhaseStatus]) -> Used:
    peaks = [phase["used"].get("memory_mb", 0.0) for phase in phases]
    return Used(cpu_s=sum(phase["used"].get("cpu_s", 0.0) for phase in phases), memory_mb=max(peaks, default=0.0))


def _stage(course: Course | None, agent_ended: bool) -> Stage:
    if course is None:
        return "queue"
    if agent_ended:
        return "verify"
    match course.stage if course.stage != "ended" else max(course.spent, key=ORDER.index):
        case ("schedule" | "pull" | "boot") as reached:
            return reached
    return "agent"
