from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from services.dev.lines import as_json, describe, plain
from services.dev.progress import Progress
from services.dev.view import View, sparkline
from shared.bus import Tapped
from shared.events import (
    GroupDiscarded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStarted,
    RunEvaluated,
    RunStaged,
    RunStepped,
    WeightsLoaded,
    encode,
)
from shared.subjects import subject_of

WHICH: dict[str, Any] = {"run_id": "run", "rollout_id": "r1", "group_id": "g1"}
ROLLOUT: dict[str, Any] = {**WHICH, "group_size": 2, "task": "t", "harness": "react"}


def story() -> list[Message]:
    return [
        RunStaged(run_id="run", stage="train", detail="step 1", done=0, total=3),
        RolloutScheduled(**ROLLOUT),
        RolloutStarted(**WHICH, sandbox="process"),
        RolloutFailed(**ROLLOUT, reason="SandboxError", final=False),
        RolloutFinished(**ROLLOUT, attempt=2, reward=1.0),
        GroupDiscarded(run_id="run", group_id="g1", reason="no_variance"),
        WeightsLoaded(run_id="run", version=4),
        RunStepped(run_id="run", step=1, version=4, metrics={"critic/rewards/mean": 0.5}),
        RunEvaluated(run_id="run", label="before", success=0.25, episodes=64, version=0),
    ]


def test_progress_folds_a_story() -> None:
    p = Progress()
    for message in story():
        p.apply(message)
    assert (p.version, p.steps, p.rewards) == (4, 1, [0.5])
    assert p.outcomes == {"retried": 1, "reward 1": 1}
    assert (dict(p.groups), p.running, p.waiting) == ({"discarded": 1}, {}, set())


def test_without_a_terminal_what_matters_is_a_line() -> None:
    out = io.StringIO()
    view = View("run", "runs/run", Console(file=out, force_terminal=False, width=200))
    with view.show():
        for message in story():
            view.on_message(message)
    text = out.getvalue()
    assert "step 1: reward 0.500" in text
    assert "held-out success before: 0.250 over 64 episodes" in text


def test_the_live_picture_shows_stage_version_and_outcomes() -> None:
    out = io.StringIO()
    view = View("run", "runs/run", Console(file=out, force_terminal=True, width=120))
    for message in story():
        view.progress.apply(message)
    view.console.print(view.render())
    text = out.getvalue()
    assert "v4" in text
    assert "1 reward 1" in text


def test_sparkline_clips() -> None:
    assert sparkline([-1, 0, 0.5, 1, 2]) == "▁▁▅██"


def test_a_tapped_message_is_one_line_and_json_keeps_its_subject() -> None:
    message = RolloutFinished(**ROLLOUT, reward=1.0)
    tapped = Tapped(subject_of(message), message, encode(message))
    assert "rollout.finished" in describe(tapped)
    assert "reward=1.0" in describe(tapped)
    assert '"subject":"forge.v1.evt.rollout.finished.run.r1"' in as_json(tapped)
    assert "not a message" in describe(Tapped("x.y", None, b"?"))


def test_what_a_stranger_publishes_does_not_command_the_terminal() -> None:
    assert describe(Tapped("x.\x1b[2J\x0b\x85ж", None, b"?")).startswith(r"x.\x1b[2J\x0b\x85ж  ")
    assert plain("one\nline\r") == "one\nline\\r"
