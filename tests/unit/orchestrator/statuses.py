"""What runners tell, for tests."""

from __future__ import annotations

from typing import Any

from services.orchestrator.spec import PhaseStatus


def phase_status(**changes: Any) -> PhaseStatus:
    """A phase that went well."""
    status = PhaseStatus(
        exit_code=0, timed_out=False, limit=None, oom=False, seconds=1.0, used={}, collected={}, too_large=[]
    )  # fmt: skip
    status.update(changes)  # type: ignore[typeddict-item]
    return status
