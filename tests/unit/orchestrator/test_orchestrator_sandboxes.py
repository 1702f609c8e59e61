from __future__ import annotations

from pathlib import Path

import pytest

from services.orchestrator.sandbox import Isolation
from services.orchestrator.sandboxes import Sandboxes
from tests.unit.orchestrator.runners import OTHER_UID


def sandboxes(folder: Path, kind: str = "process") -> Sandboxes:
    return Sandboxes(folder / "openforge-run1", Isolation("uid" if kind == "uid" else "process", False, OTHER_UID))


def test_a_sandbox_goes_away_even_if_its_agent_closed_it(folder: Path) -> None:
    ours = sandboxes(folder)
    closed = ours.folder("r1-a1") / "app" / "closed" / "inner"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    (ours.folder("r1-a1") / "app" / "link").symlink_to("/")
    closed.chmod(0)
    closed.parent.chmod(0)
    ours.remove("r1-a1")
    assert list(ours.root.iterdir()) == []
    ours.close()
    assert not ours.root.exists()


def test_removing_what_is_not_there_does_nothing(folder: Path) -> None:
    sandboxes(folder).remove("r1-a1")


@pytest.mark.parametrize(("kind", "mode"), [("process", 0o700), ("uid", 0o711)])
def test_other_users_pass_through_only_where_programs_run_as_one(folder: Path, kind: str, mode: int) -> None:
    assert sandboxes(folder, kind).root.stat().st_mode & 0o777 == mode
