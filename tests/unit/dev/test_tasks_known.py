"""An accepted task that is looked at again: its folder and its image are what they were, or it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from services.dev.tasks.known import AsAccepted
from services.synth.books import Known, known_file, write
from services.synth.gates.build import Build
from services.synth.model import Ended
from shared.config import OrchestratorConfig
from shared.task import folder_digest
from tests.unit.synth.gatehouse import PROPOSAL, Scripted, good, judged

DOCKER = OrchestratorConfig(backend="docker")


def accepted(top: Path, image: str = "sha256:1") -> Path:
    """A sound task, and what synth noted of it."""
    folder = good(top / "made" / "sum-1")
    known = Known(
        proposal=PROPOSAL, digest=folder_digest(folder), run="run1", rounds=0, at=0.0, split="train", verdicts=[], image=image
    )
    write(known_file(folder), known)
    return folder


def within(image: str) -> Scripted:
    """Trials in that image."""
    return Scripted(lambda trial, _: Ended(trial=trial, reward=0.0, image=image))


async def test_a_task_that_is_what_it_was_passes(tmp_path: Path) -> None:
    folder = accepted(tmp_path)
    assert (await judged(AsAccepted(DOCKER), folder, within("sha256:1"))).outcome == "passed"


async def test_another_image_of_the_same_folder_is_told_with_both(tmp_path: Path) -> None:
    verdict = await judged(AsAccepted(DOCKER), accepted(tmp_path), within("sha256:2"))
    assert (verdict.outcome, verdict.reason) == ("failed", "other-image")
    assert (verdict.evidence["accepted"], verdict.evidence["found"]) == ("sha256:1", "sha256:2")


async def test_a_folder_that_was_changed_is_told_before_anything_is_run(tmp_path: Path) -> None:
    folder, trials = accepted(tmp_path), within("sha256:1")
    (folder / "tests" / "test.sh").write_text('echo 1 > "$LOGS_DIR/verifier/reward.txt"\n')
    verdict = await judged(AsAccepted(DOCKER), folder, trials)
    assert (verdict.reason, trials.asked) == ("changed", [])
    assert "run1 accepted it" in verdict.detail


@pytest.mark.parametrize(("image", "backend"), [("", "docker"), ("sha256:1", "local")])
async def test_where_no_image_was_or_is_the_folder_alone_is_compared(image: str, backend: str, tmp_path: Path) -> None:
    trials = within("sha256:2")
    verdict = await judged(AsAccepted(replace(DOCKER, backend=backend)), accepted(tmp_path, image), trials)
    assert (verdict.outcome, trials.asked) == ("passed", [])
    assert "no image was compared" in verdict.detail


async def test_a_task_of_others_is_not_looked_at_and_notes_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    assert (await judged(AsAccepted(DOCKER), good(tmp_path / "theirs"), within(""))).outcome == "skipped"
    folder = accepted(tmp_path)
    known_file(folder).write_text("{")
    assert (await judged(AsAccepted(DOCKER), folder, within(""))).reason == "unreadable"


@pytest.mark.parametrize(("error", "outcome"), [("VerifierTimeout: late", "passed"), ("ImageError: no such package", "failed")])
async def test_the_build_gate_judges_the_image_and_leaves_the_verifier_to_the_next(
    error: str, outcome: str, tmp_path: Path
) -> None:
    trials = Scripted(lambda trial, _: Ended(trial=trial, error=error, image="sha256:1"))
    assert (await judged(Build(DOCKER), good(tmp_path / "task"), trials)).outcome == outcome


async def test_the_build_gate_names_the_image_that_was_tried(tmp_path: Path) -> None:
    verdict = await judged(Build(DOCKER), good(tmp_path / "task"), within("sha256:1"))
    assert (verdict.outcome, verdict.evidence["image"]) == ("passed", "sha256:1")
