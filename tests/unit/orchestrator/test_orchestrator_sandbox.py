from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from services.orchestrator.isolation import resolve_isolation
from services.orchestrator.sandbox import TAKEN, Isolation, Kind, Sandbox, copy_etc
from shared.config import OrchestratorConfig
from shared.errors import HarnessError, SandboxError, TaskError
from tests.unit.orchestrator.runners import isolation_of

FOLDER = Path("/srv/r1-a1")
PROGRAM = ["/usr/bin/agent", "go"]


def sandbox(kind: Kind, root: bool = True, workdir: str = "/app") -> Sandbox:
    return Sandbox(Isolation(kind, root, 65534, etc="/srv/etc"), FOLDER, workdir)


def pairs(argv: list[str], option: str) -> dict[str, str]:
    """What each target of a mount option shows."""
    return {argv[i + 2]: argv[i + 1] for i, word in enumerate(argv) if word == option}


def test_bubblewrap_mounts_the_folders_at_harbors_paths() -> None:
    agent = pairs(sandbox("bubblewrap").command("agent", PROGRAM), "--bind")
    assert agent == {
        "/app": "/srv/r1-a1/app", "/home/agent": "/srv/r1-a1/agent/home", "/tmp": "/srv/r1-a1/agent/tmp",
        "/logs/agent": "/srv/r1-a1/logs/agent", "/logs/artifacts": "/srv/r1-a1/logs/artifacts",
    }  # fmt: skip
    verify = pairs(sandbox("bubblewrap").command("verify", PROGRAM), "--bind")
    assert verify["/tests"] == "/srv/r1-a1/tests"
    assert verify["/logs/verifier"] == "/srv/r1-a1/logs/verifier"
    assert verify["/home/agent"] == "/srv/r1-a1/verify/home"


def test_everything_else_of_the_machine_is_read_only() -> None:
    argv = sandbox("bubblewrap").command("agent", PROGRAM, [Path("/opt/harness"), Path("/usr/lib/agent")])
    shown = pairs(argv, "--ro-bind")
    assert {"/usr", "/opt/harness"} <= set(shown)
    assert all(target.startswith(("/usr", "/opt/harness", "/etc", "/bin", "/sbin", "/lib")) for target in shown)
    assert "/usr/lib/agent" not in shown
    assert shown["/etc"] == "/srv/etc"


def test_the_copy_of_etc_has_no_accounts_and_nothing_that_is_private(tmp_path: Path) -> None:
    copy_etc(tmp_path / "etc")
    copy_etc(tmp_path / "etc")  # a successor finds it there
    copied = {str(p.relative_to(tmp_path / "etc")) for p in (tmp_path / "etc").rglob("*")}
    assert "hosts" in copied
    assert not {"passwd", "shadow", "ssl/private"} & copied


def test_the_program_comes_last_and_bubblewrap_says_that_the_sandbox_stands() -> None:
    for kind in ("bubblewrap", "uid", "process"):
        argv = sandbox(kind).command("agent", PROGRAM)
        assert argv[-len(PROGRAM) :] == PROGRAM
        assert (argv[argv.index("--block-fd") + 1] == "3") if kind == "bubblewrap" else ("--block-fd" not in argv)


def test_as_root_programs_become_another_user_and_else_they_get_a_user_namespace() -> None:
    as_root, other = (
        sandbox("bubblewrap").command("agent", PROGRAM),
        sandbox("bubblewrap", root=False).command("agent", PROGRAM),
    )
    assert "--unshare-user" not in as_root
    assert as_root[as_root.index("--") + 1 :][:3] == ["/usr/bin/setpriv", "--reuid", "65534"]
    assert "--unshare-user" in other
    assert "/usr/bin/setpriv" not in other


def test_the_other_kinds_tell_programs_by_variables_where_things_are() -> None:
    for kind in ("uid", "process"):
        env = sandbox(kind).env("verify")
        assert (env["APP_DIR"], env["LOGS_DIR"], env["TESTS_DIR"]) == (
            "/srv/r1-a1/app",
            "/srv/r1-a1/logs",
            "/srv/r1-a1/tests",
        )
    env = sandbox("bubblewrap", workdir="/work").env("verify")
    assert (env["APP_DIR"], env["LOGS_DIR"], env["TESTS_DIR"]) == ("/work", "/logs", "/tests")


@pytest.mark.parametrize("workdir", ["/", "/app/../etc", *TAKEN, "/usr/src/app"])
def test_a_working_folder_where_something_else_is_is_the_tasks_fault(workdir: str) -> None:
    with pytest.raises(TaskError, match="use one such as /app"):
        sandbox("bubblewrap", workdir=workdir).command("agent", PROGRAM)


def test_a_harness_that_the_other_user_cannot_reach_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "harness").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(HarnessError, match="closed to others"):
        Isolation("uid", True, 65534).check_readable([closed / "harness"])
    Isolation("bubblewrap", True, 65534).check_readable([closed / "harness"])
    Isolation("process", False, 65534).check_readable([closed / "harness"])
    with pytest.raises(HarnessError, match="closed to others"):
        Isolation("bubblewrap", True, 65534).check_readable([closed])


def test_auto_takes_bubblewrap_where_it_works() -> None:
    isolation_of("bubblewrap")  # skips or fails where it is missing
    found = resolve_isolation(OrchestratorConfig(uid=1234))
    assert (found.kind, found.uid, found.bwrap) == ("bubblewrap", 1234, shutil.which("bwrap"))


@pytest.fixture
def without_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("without_bubblewrap")
def test_without_bubblewrap_root_becomes_another_user(caplog: pytest.LogCaptureFixture) -> None:
    found = resolve_isolation(OrchestratorConfig(), root=True)
    assert (found.kind, found.owner) == ("uid", "65534")
    assert "apt-get install -y bubblewrap" in caplog.text


@pytest.mark.usefixtures("without_bubblewrap")
def test_without_bubblewrap_somebody_else_gets_plain_processes_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = resolve_isolation(OrchestratorConfig(), root=False)
    assert (found.kind, found.owner, found.drop) == ("process", "", [])
    assert "with your rights" in caplog.text


def test_a_bubblewrap_that_does_not_work_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="No permissions to create new namespace"):
        resolve_isolation(OrchestratorConfig(sandbox="bubblewrap"))


@pytest.mark.usefixtures("without_bubblewrap")
def test_a_configured_bubblewrap_that_is_missing_names_its_package() -> None:
    with pytest.raises(SandboxError, match="apt-get install -y bubblewrap"):
        resolve_isolation(OrchestratorConfig(sandbox="bubblewrap"))


def test_plain_processes_are_refused_to_root() -> None:
    with pytest.raises(SandboxError, match="as root"):
        resolve_isolation(OrchestratorConfig(sandbox="process"), root=True)


def test_the_uid_kind_needs_root() -> None:
    with pytest.raises(SandboxError, match="needs root"):
        resolve_isolation(OrchestratorConfig(sandbox="uid"), root=False)
