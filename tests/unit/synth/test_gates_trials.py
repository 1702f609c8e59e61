"""What gates make of how trials end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.synth.gates.bare import Null, Oracle
from services.synth.gates.cheating import TRICKS, Cheating
from services.synth.gates.difficulty import Difficulty, wilson
from services.synth.gates.initial import Initial
from services.synth.gates.outputs import Outputs
from services.synth.gates.repeats import Repeats
from services.synth.model import Ended, Trial
from shared.config import OrchestratorConfig
from shared.config.synth import TesterConfig
from tests.unit.synth.gatehouse import Scripted, good, judged, sound


@pytest.mark.parametrize("gate", [Null(), Oracle(), Repeats(3), Cheating(), Outputs(OrchestratorConfig())])
async def test_a_sound_task_passes(gate: Null, tmp_path: Path) -> None:
    assert (await judged(gate, good(tmp_path / "task"))).outcome == "passed"


@pytest.mark.parametrize(("gate", "reward", "reason"), [(Null(), 0.5, "null-passes"), (Oracle(), 0.9, "oracle-fails")])
async def test_a_reward_that_is_not_as_it_must_be_is_told_with_what_was_printed(
    gate: Null, reward: float, reason: str, tmp_path: Path
) -> None:
    trials = Scripted(lambda trial, _: Ended(trial=trial, reward=reward, said="I looked at sum.txt"))
    verdict = await judged(gate, good(tmp_path / "task"), trials)
    assert (verdict.outcome, verdict.reason) == ("failed", reason)
    assert f"{reward:g}" in verdict.detail
    assert "I looked at sum.txt" in verdict.detail
    assert verdict.evidence["trials"][0]["reward"] == reward


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("VerifierTimeout: ended after 2 s", "hanging-verifier"), ("VerifierError: left nothing", "no-reward"),
        ("ImageError: no such package", "does-not-build"), ("TaskError: no tests", "does-not-run"),
    ],
)  # fmt: skip
async def test_a_trial_without_a_reward_has_a_reason_of_its_own(error: str, reason: str, tmp_path: Path) -> None:
    trials = Scripted(lambda trial, _: Ended(trial=trial, error=error))
    verdict = await judged(Null(), good(tmp_path / "task"), trials)
    assert (verdict.reason, error in verdict.detail) == (reason, True)


async def test_a_task_without_a_solution_fails_for_that_alone(tmp_path: Path) -> None:
    folder = good(tmp_path / "task")
    (folder / "solution/solve.sh").unlink()
    trials = Scripted(sound)
    assert (await judged(Oracle(), folder, trials)).reason == "no-solution"
    assert (await judged(Repeats(2), folder, trials)).outcome == "passed"
    assert {trial.agent for trial in trials.asked} == {"null"}


def by_clock(trial: Trial, folder: Path) -> float:
    return sound(trial, folder) if trial.clock < "2030" else 0.0


def by_hash(trial: Trial, folder: Path) -> float:
    return 0.0 if trial.env.get("PYTHONHASHSEED") == "2" else sound(trial, folder)


def null_by_hash(trial: Trial, folder: Path) -> float:
    return 1.0 if trial.env.get("PYTHONHASHSEED") == "3" else sound(trial, folder)


@pytest.mark.parametrize("ends", [by_clock, by_hash, null_by_hash])
async def test_rewards_that_differ_with_clock_or_hashes_are_a_flaky_verifier(ends: Scripted, tmp_path: Path) -> None:
    verdict = await judged(Repeats(3), good(tmp_path / "task"), Scripted(ends))  # type: ignore[arg-type]
    assert (verdict.outcome, verdict.reason) == ("failed", "flaky-verifier")


def fails_when_shown_a_time(trial: Trial, folder: Path) -> float:
    return 0.0 if trial.clock and trial.clock_for == "all" else sound(trial, folder)


async def test_a_program_that_fails_for_being_shown_a_time_is_not_the_tasks_fault(tmp_path: Path) -> None:
    trials = Scripted(fails_when_shown_a_time)
    verdict = await judged(Repeats(3), good(tmp_path / "task"), trials)
    assert verdict.outcome == "passed"
    assert "for the verifier alone" in verdict.detail
    assert {trial.clock[:4] for trial in trials.asked if trial.clock_for == "verifier"} > {"2019", "2024", "2031"} - {"2019"}


async def test_a_clock_that_matters_is_found_though_the_agent_can_only_be_run_with_the_real_time(tmp_path: Path) -> None:
    def ends(trial: Trial, folder: Path) -> float:
        if trial.clock_for == "verifier":
            return sound(trial, folder) if trial.clock < "2030" else 0.0
        return fails_when_shown_a_time(trial, folder)

    assert (await judged(Repeats(3), good(tmp_path / "task"), Scripted(ends))).reason == "flaky-verifier"


async def test_where_no_clock_can_be_set_hashes_are_varied_and_the_verdict_says_so(tmp_path: Path) -> None:
    def ends(trial: Trial, folder: Path) -> Ended | float:
        error = "ConfigError: orchestrator.clock needs libfaketime in local sandboxes"
        return Ended(trial=trial, error=error) if trial.clock else sound(trial, folder)

    verdict = await judged(Repeats(2), good(tmp_path / "task"), Scripted(ends))
    assert (verdict.outcome, "not varied" in verdict.detail) == ("passed", True)


@pytest.mark.parametrize("trick", list(TRICKS))
async def test_a_reward_for_cheating_says_by_which_trick(trick: str, tmp_path: Path) -> None:
    trials = Scripted(lambda trial, _: 0.3 if trial.env.get("CHEAT") == trick else 0.0)
    verdict = await judged(Cheating(), good(tmp_path / "task"), trials)
    assert (verdict.reason, TRICKS[trick] in verdict.detail) == ("reward-for-cheating", True)


async def test_a_cheat_that_breaks_the_verifier_gets_nothing_and_that_is_well(tmp_path: Path) -> None:
    trials = Scripted(lambda trial, _: Ended(trial=trial, error="VerifierError: left nothing"))
    assert (await judged(Cheating(), good(tmp_path / "task"), trials)).outcome == "passed"


async def test_an_initial_state_is_looked_at_by_a_verifier_of_its_own(tmp_path: Path) -> None:
    said = '[metadata.initial]\nthere = ["numbers.txt"]\nabsent = ["it\'s made.txt"]\n'
    scripts: list[str] = []

    def ends(trial: Trial, folder: Path) -> float:
        scripts.append((folder / "tests/test.sh").read_text())
        assert (folder / "tests/own/test.sh").is_file()
        return 1.0

    folder = good(tmp_path / "task", **{"task.toml": said})
    assert (await judged(Initial(), folder, Scripted(ends))).outcome == "passed"
    assert "numbers.txt" in scripts[0]
    assert (await judged(Initial(), folder, Scripted(lambda *_: 0.0))).reason == "other-initial-state"
    assert list((tmp_path / "evidence").iterdir()) == []


@pytest.mark.parametrize(
    ("toml", "outcome"),
    [("", "skipped"), ("[metadata.initial]\nhere = []\n", "failed"), ("[metadata]\ninitial = 3\n", "failed")],
)
async def test_an_initial_state_that_is_not_said_is_skipped_and_one_that_cannot_be_read_fails(
    toml: str, outcome: str, tmp_path: Path
) -> None:
    assert (await judged(Initial(), good(tmp_path / "task", **{"task.toml": toml}))).outcome == outcome


@pytest.mark.parametrize(
    ("null", "oracle", "instruction", "outcome"),
    [
        ("", "SAME old.txt sum.txt", "Make sum.txt.", "failed"),
        ("", "SAME old.txt sum.txt", "Copy old.txt to sum.txt.", "passed"),
        ("SAME old.txt sum.txt", "SAME old.txt sum.txt", "Make sum.txt.", "passed"), ("", "hello", "Make sum.txt.", "passed"),
    ],
)  # fmt: skip
async def test_what_the_solution_makes_must_not_lie_there_unless_the_instruction_names_it(
    null: str, oracle: str, instruction: str, outcome: str, tmp_path: Path
) -> None:
    said = {"null": null, "oracle": oracle}
    trials = Scripted(lambda trial, _: Ended(trial=trial, reward=0.0, said=said[trial.agent]))
    folder = good(tmp_path / "task", **{"instruction.md": instruction})
    assert (await judged(Outputs(OrchestratorConfig(backend="docker")), folder, trials)).outcome == outcome


@pytest.mark.parametrize(
    ("solved", "above", "below", "outcome", "split"),
    [
        (3, 0.0, 1.0, "passed", "train"), (0, 0.0, 1.0, "passed", "hard"), (8, 0.0, 1.0, "failed", None),
        (1, 0.2, 0.8, "passed", "hard"), (7, 0.2, 0.8, "failed", None), (4, 0.2, 0.8, "passed", "train"),
    ],
)  # fmt: skip
async def test_difficulty_is_a_share_of_tries_in_a_band(
    solved: int, above: float, below: float, outcome: str, split: str | None, tmp_path: Path
) -> None:
    gate = Difficulty(TesterConfig(harness="react", k=8, above=above, below=below))
    trials = Scripted(lambda trial, _: float(trial.run <= solved))
    verdict = await judged(gate, good(tmp_path / "task"), trials)
    assert (verdict.outcome, verdict.evidence.get("split"), verdict.evidence["solved"]) == (outcome, split, solved)
    assert {trial.agent for trial in trials.asked} == {"react"}


async def test_without_a_tester_no_difficulty_is_known(tmp_path: Path) -> None:
    assert (await judged(Difficulty(TesterConfig()), good(tmp_path / "task"))).outcome == "skipped"


@settings(deadline=None)
@given(st.integers(1, 400).flatmap(lambda tries: st.tuples(st.integers(0, tries), st.just(tries))))
def test_an_interval_holds_its_share_lies_in_0_to_1_and_mirrors(case: tuple[int, int]) -> None:
    solved, tries = case
    low, high = wilson(solved, tries)
    assert 0 <= low <= solved / tries <= high <= 1
    mirrored = wilson(tries - solved, tries)
    assert mirrored == pytest.approx((1 - high, 1 - low))


def test_an_interval_is_the_one_in_the_books() -> None:
    assert wilson(1, 10) == pytest.approx((0.0179, 0.4042), abs=2e-4)
