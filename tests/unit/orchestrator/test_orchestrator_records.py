"""What a restarted orchestrator finds of the rollouts that were accepted before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from services.orchestrator.accounts import Account
from services.orchestrator.records import Asked, Records
from services.orchestrator.state import Rollout, Verdict, failed, judged
from shared.errors import SandboxError
from shared.events import RolloutStart

ATTEMPTS = 3
ASKED = Asked(family="task", limit_s=60.0, deadline_s=180.0)


def rollout(number: int) -> Rollout:
    start = RolloutStart(run_id="run", rollout_id=f"r{number}", group_id="g", group_size=8, task_dir="/t", harness="react")
    return Rollout(start, "task", ATTEMPTS)


def fail(records: Records, before: Rollout) -> Rollout:
    """The rollout after its present attempt failed, which is noted."""
    after, outcome = failed(before, SandboxError("gone"), Account(), sealed=False)
    records.report(before, outcome)
    return after


@pytest.mark.parametrize("number", range(8))  # files are found in any order
def test_an_attempt_that_ended_well_after_one_that_failed_is_not_made_again(tmp_path: Path, number: int) -> None:
    records, first = Records(tmp_path), rollout(number)
    records.accept(first)
    second = fail(records, first)
    records.accept(second)
    records.report(second, judged(second, Verdict(1.0, None, 0, 1.0, 1.0), 60.0, Account())[1])
    [found] = records.load(ATTEMPTS)
    assert found.rollout == replace(second, phase="reported")
    assert found.asked is None


def test_an_attempt_that_failed_is_followed_by_the_next_one(tmp_path: Path) -> None:
    records, first = Records(tmp_path), rollout(0)
    records.accept(first)
    second = fail(records, first)
    [found] = records.load(ATTEMPTS)
    assert (found.rollout, found.asked) == (second, None)
    records.accept(second)
    records.ask(second, ASKED)
    [found] = records.load(ATTEMPTS)
    assert (found.rollout, found.asked) == (second, ASKED)
