from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.orchestrator.sandbox import Isolation
from services.orchestrator.sandboxes import Sandboxes
from shared.config import Config, OrchestratorConfig, RunConfig
from shared.events import RolloutFailed
from tests.unit.orchestrator.runners import OTHER_UID

FAILED = RolloutFailed(
    run_id="run1", rollout_id="r1", group_id="g1", group_size=1, task="t", harness="react", reason="SandboxError"
)


@pytest.fixture
def folder(open_folder: Path) -> Iterator[Path]:
    """A folder of this process, which for its time is not root."""
    root = os.geteuid() == 0
    if root:
        os.chown(open_folder, OTHER_UID, OTHER_UID)
        os.seteuid(OTHER_UID)
    yield open_folder
    if root:
        os.seteuid(0)


def sandboxes(folder: Path, kind: str = "process") -> Sandboxes:
    config = Config(run=RunConfig(id="run1"), orchestrator=OrchestratorConfig(work_root=str(folder)))
    return Sandboxes(config, Isolation("uid" if kind == "uid" else "process", False, OTHER_UID))


def test_a_sandbox_goes_away_even_if_its_agent_closed_it(folder: Path) -> None:
    ours = sandboxes(folder)
    closed = ours.folder("r1-a1") / "app" / "closed" / "inner"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    (ours.folder("r1-a1") / "app" / "link").symlink_to("/")
    closed.chmod(0)
    closed.parent.chmod(0)
    ours.settle("r1-a1", FAILED)
    assert list(ours.root.iterdir()) == []
    ours.close()
    assert not ours.root.exists()


def test_settling_what_is_not_there_does_nothing(folder: Path) -> None:
    sandboxes(folder).settle("r1-a1", FAILED)


@pytest.mark.parametrize(("kind", "mode"), [("process", 0o700), ("uid", 0o711)])
def test_other_users_pass_through_only_where_programs_run_as_one(folder: Path, kind: str, mode: int) -> None:
    assert sandboxes(folder, kind).root.stat().st_mode & 0o777 == mode
