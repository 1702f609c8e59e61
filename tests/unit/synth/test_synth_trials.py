"""Names and ends of trials, and what makes them new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.orchestrator.runner.report import STATUS_LINE
from services.synth import said
from services.synth.families import FamilyMaker, in_turn, wanted
from services.synth.model import Ended, Trial
from services.synth.trials import ended_of, is_lost, name_of, rollout_of, trial_of
from shared.config import SynthConfig
from shared.errors import ConfigError
from shared.events import RolloutFailed, RolloutFinished, RolloutStart, decode, encode
from tests.unit.synth.house import Words

NULL = Trial(agent="null")
COMMON: dict[str, Any] = {
    "run_id": "r", "rollout_id": "t", "group_id": "g", "group_size": 1, "task": "t", "harness": "null",
}  # fmt: skip


def test_another_content_clock_or_environment_is_another_trial() -> None:
    others = [
        NULL, Trial(agent="oracle"), Trial(agent="null", run=2), Trial(agent="null", clock="2031-01-01"),
        Trial(agent="null", env={"PYTHONHASHSEED": "1"}),
    ]  # fmt: skip
    names = [name_of("task", digest, trial) for digest in ("aa", "bb") for trial in others]
    assert len(set(names)) == len(names)
    assert name_of("task", "aa", Trial(agent="null")) == names[0]


def test_names_of_trials_of_long_tasks_are_legal_ids() -> None:
    name = name_of("x" * 120, "aa", Trial(agent="a-very-long-name-of-a-harness"))
    start = RolloutStart(run_id="r", rollout_id=rollout_of(name, 12), group_id="g", group_size=1, task_dir="/t", harness="null")
    assert decode(encode(start)) == start
    assert trial_of(start.rollout_id) == (name, 12)


@pytest.mark.parametrize(
    ("reason", "lost"),
    [
        ("Evicted", True), ("Cancelled", True), ("SandboxError", True), ("EngineError", True), ("VerifierTimeout", False),
        ("VerifierError", False), ("TaskError", False), ("ImageError", False), ("HarnessCrash", False), ("Unheard", False),
    ],
)  # fmt: skip
def test_only_what_the_task_has_no_part_in_is_lost(reason: str, lost: bool) -> None:
    assert is_lost(reason) is lost


def test_a_verifier_that_was_ended_is_told_from_one_that_failed() -> None:
    hung, broken = (ended_of(NULL, RolloutFailed(reason=r, **COMMON), "") for r in ("VerifierTimeout", "VerifierError"))
    assert (hung.timed_out, broken.timed_out) == (True, False)
    assert hung.reward is broken.reward is None
    good = ended_of(NULL, RolloutFinished(reward=1, exit_code=3, **COMMON), "end")
    assert good == Ended(trial=NULL, reward=1, error="the agent's exit code was 3", said="end", session="t-a1")


@pytest.mark.parametrize(
    "wrong",
    [{"clock": "yesterday"}, {"env": {"A B": "x"}}, {"env": {"A": "x" * 5000}}, {"env": {str(n): "" for n in range(9)}}],
)
def test_a_clock_or_an_environment_that_cannot_be_is_refused_at_the_door(wrong: dict[str, object]) -> None:
    start = RolloutStart(run_id="r", rollout_id="t", group_id="g", group_size=1, task_dir="/t", harness="null")
    with pytest.raises(msgspec.ValidationError):
        decode(msgspec.json.encode({**msgspec.json.decode(encode(start)), **wrong}))


def test_what_a_container_printed_is_told_without_its_status(tmp_path: Path) -> None:
    assert said.STATUS_LINE == STATUS_LINE
    (tmp_path / "sandbox.log").write_text(f"it failed\n{STATUS_LINE}{{}}\n")
    assert said.said(tmp_path) == "it failed"


async def test_a_family_makes_the_same_proposal_of_a_number_and_others_of_others() -> None:
    maker, again = FamilyMaker([Words()], 5), FamilyMaker([Words()], 5)
    assert await maker.propose(3) == await again.propose(3)
    assert await FamilyMaker([Words()], 6).propose(3) != await maker.propose(3) != await maker.propose(4)


def test_domains_take_turns() -> None:
    families = [Words("a"), Words("b"), Words("c"), Words("d", "browser")]
    assert [family.name for family in in_turn(families)] == ["a", "d", "b", "d", "c", "d"]


def test_a_family_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="no 'wrods' in these domains; there are: words"):
        wanted([Words()], SynthConfig(families=["wrods"]))
    with pytest.raises(ConfigError, match="no family makes tasks of browser"):
        wanted([Words()], SynthConfig(domains=("browser",)))
