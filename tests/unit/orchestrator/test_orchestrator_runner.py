"""The runner with real processes, in every kind of sandbox that this machine can give."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.orchestrator.house import until
from tests.unit.orchestrator.runners import OTHER_UID, Bench, ended, processes_with


async def test_agent_then_verifier_in_the_same_working_folder(bench: Bench) -> None:
    status = await bench.run('echo hello > out.txt; echo said; cat "$HOME/note"; exit 7')
    assert (status["phase"], status["error"]) == ("done", None)
    assert (status["phases"]["agent"]["exit_code"], status["phases"]["agent"]["timed_out"]) == (7, False)
    assert (status["phases"]["verify"]["exit_code"], status["phases"]["verify"]["collected"]) == (0, {"reward.txt": "1\n"})
    assert bench.log("agent") == "said\nhome\n"


async def test_the_environment_is_minimal_and_fixed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    await bench.run("env")
    names = {line.partition("=")[0] for line in bench.log("agent").splitlines()}
    ours = {
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "TZ",
        "PYTHONHASHSEED",
        "GIT_AUTHOR_DATE",
        "GIT_COMMITTER_DATE",
        "TERM",
        "TMPDIR",
        "APP_DIR",
        "LOGS_DIR",
        "TESTS_DIR",
        "BASE",
    }
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == ours
    assert "TZ=UTC\n" in bench.log("agent")


async def test_the_same_commit_has_the_same_name_in_every_sandbox(plain_bench: Bench) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one"
    await plain_bench.run(f"git init -q . && {commit} && git log --format='%ad %cd' --date=unix")
    assert plain_bench.log("agent").split()[-2:] == ["1767225600", "1767225600"]


async def test_environment_is_copied_without_the_recipe_of_a_container(plain_bench: Bench) -> None:
    for name in ("Dockerfile", "data/a.txt", "data/Dockerfile", "run.sh"):
        (plain_bench.task / "environment" / name).parent.mkdir(parents=True, exist_ok=True)
        (plain_bench.task / "environment" / name).write_text(name)
    (plain_bench.task / "environment" / "run.sh").chmod(0o755)
    (plain_bench.task / "environment" / "link").symlink_to("data/a.txt")
    await plain_bench.run("find . -type f | sort; cat link; test -x run.sh && echo; echo executable; echo x >> data/a.txt")
    assert plain_bench.log("agent") == "./data/Dockerfile\n./data/a.txt\n./run.sh\ndata/a.txt\nexecutable\n"
    assert (plain_bench.task / "environment" / "data" / "a.txt").read_text() == "data/a.txt"


async def test_tests_are_not_there_while_the_agent_runs(bench: Bench) -> None:
    status = await bench.run('ls -A "$TESTS_DIR" "$LOGS_DIR/verifier" 2>/dev/null; echo nothing')
    assert bench.log("agent") == "nothing\n"
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "0\n"}


async def test_an_agent_cannot_reward_itself(bench: Bench) -> None:
    bench.task.joinpath("tests/test.sh").write_text("#!/bin/sh\nexit 0\n")
    status = await bench.run(
        'mkdir -p "$LOGS_DIR/verifier"; echo 1 > "$LOGS_DIR/verifier/reward.txt"; echo 2 > "$LOGS_DIR/verifier/reward.json"'
    )
    assert status["phases"]["verify"]["collected"] == {}


async def test_a_link_left_by_the_verifier_is_not_followed(plain_bench: Bench) -> None:
    plain_bench.task.joinpath("tests/test.sh").write_text('#!/bin/sh\nln -s /etc/hostname "$LOGS_DIR/verifier/reward.txt"\n')
    status = await plain_bench.run("true")
    assert status["phases"]["verify"]["collected"] == {}


async def test_out_of_time_ends_the_agent_and_still_verifies(bench: Bench) -> None:
    status = await bench.run("echo hello > out.txt; sleep 600", timeout_s=0.3)
    assert (status["phase"], status["phases"]["agent"]["timed_out"]) == ("done", True)
    assert 0.3 <= status["phases"]["agent"]["seconds"] < 2
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}


async def test_an_agent_may_save_its_work_when_it_is_asked_to_end(bench: Bench) -> None:
    script = "trap 'echo hello > out.txt; exit 0' TERM; while :; do sleep 0.05; done"
    status = await bench.run(script, timeout_s=0.3, grace_s=5.0)
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}


async def test_an_agent_that_will_not_end_is_killed(bench: Bench) -> None:
    status = await bench.run("trap '' TERM; while :; do sleep 600; done", timeout_s=0.3)
    assert status["phases"]["agent"]["timed_out"]
    assert status["phases"]["agent"]["exit_code"] != 0


async def test_descendants_that_escaped_are_killed_before_the_verifier_runs(bench: Bench) -> None:
    mark = f"86400.{secrets.randbelow(10**9)}"
    bench.task.joinpath("tests/test.sh").write_text(
        '#!/bin/sh\nls /proc | grep -c "^[0-9]" > "$LOGS_DIR/verifier/reward.txt"\n'
    )
    await bench.run(f"(setsid sh -c \"trap '' TERM; setsid sleep {mark} & exec sleep {mark}\" &) ; sleep 0.1; echo over")
    assert bench.log("agent") == "over\n"
    assert processes_with(mark) == []


async def test_a_flood_of_output_is_cut_but_not_blocked(plain_bench: Bench) -> None:
    status = await plain_bench.run("head -c 5000000 /dev/zero | tr '\\0' x; echo hello > out.txt", log_bytes=1000)
    log = plain_bench.log("agent")
    assert log.startswith("x" * 1000 + "\n[4999000 bytes more were dropped: the limit is 1000]")
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}


async def test_an_agent_that_closes_its_output_is_still_waited_for(plain_bench: Bench) -> None:
    status = await plain_bench.run("exec >&- 2>&-; sleep 0.2; echo hello > out.txt")
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}


async def test_a_hanging_verifier_is_ended(plain_bench: Bench) -> None:
    plain_bench.task.joinpath("tests/test.sh").write_text("#!/bin/sh\nsleep 600\n")
    status = await plain_bench.run("true", verifier_timeout_s=0.3)
    assert (status["phase"], status["phases"]["verify"]["timed_out"]) == ("done", True)


async def test_cancelling_ends_everything_within_two_seconds(bench: Bench) -> None:
    mark = f"86400.{secrets.randbelow(10**9)}"
    backend = await bench.backend()
    await backend.start(bench.box(f"trap '' TERM; setsid sleep {mark} & sleep {mark}", grace_s=1.0))
    await until(lambda: processes_with(f"sleep\0{mark}"), "the agent to run")
    await backend.end("r1-a1", 5)
    async with asyncio.timeout(2):
        status = (await ended(backend)).status
    await backend.close()
    assert status is not None
    assert (status["phase"], "verify" in status["phases"]) == ("cancelled", False)
    assert processes_with(mark) == []


async def test_a_script_without_interpreter_line_or_mode_is_run_all_the_same(plain_bench: Bench) -> None:
    script = plain_bench.task / "tests" / "test.sh"
    script.write_text('echo 0.5 > "$LOGS_DIR/verifier/reward.txt"\n')
    script.chmod(0o600)
    status = await plain_bench.run("true")
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "0.5\n"}


async def test_a_full_disk_fails_the_attempt_with_its_reason(plain_bench: Bench) -> None:
    spec = plain_bench.spec("echo much; sleep 600")
    (plain_bench.records / "r1-a1" / "agent.log").symlink_to("/dev/full")
    status = await plain_bench.carry_out(spec)
    assert status["phase"] == "failed"
    assert "No space left" in str(status["error"])


async def test_a_sandbox_that_cannot_be_set_up_is_no_agents_failure(bubblewrap_bench: Bench) -> None:
    spec = bubblewrap_bench.spec("true")
    spec["phases"][0]["argv"][1:1] = ["--ro-bind", "/no/such/folder", "/x"]
    status = await bubblewrap_bench.carry_out(spec)
    assert (status["phase"], status["phases"]) == ("failed", {})
    assert "the sandbox could not be set up: bwrap: Can't find source path /no/such/folder" in str(status["error"])


async def test_a_program_that_is_not_there_is_its_phases_failure(plain_bench: Bench) -> None:
    spec = plain_bench.spec("true")
    spec["phases"][0]["argv"] = ["/no/such/program"]
    status = await plain_bench.carry_out(spec)
    assert (status["phase"], status["phases"]["agent"]["exit_code"]) == ("done", 127)
    assert "No such file" in plain_bench.log("agent")


async def test_bubblewrap_shows_nothing_of_the_machine(bubblewrap_bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    await bubblewrap_bench.run(
        f"cat {tmp_path}/secret; cat /etc/passwd; touch /usr/x; id -u; echo $HOME; pwd; ls /; ls -A /home /logs /tmp;"
        "echo 1 > /proc/sys/kernel/panic; echo x > /dev/shm/x && echo x > /tmp/x && echo shared; grep CapEff /proc/self/status"
    )
    log = bubblewrap_bench.log("agent")
    assert f"{tmp_path}/secret: No such file" in log
    assert "/etc/passwd: No such file" in log
    assert "touch: cannot touch '/usr/x': Read-only file system" in log
    assert "\n65534\n/home/agent\n/app\napp\nbin\ndev\netc\nhome\n" in log
    assert "\n/home:\nagent\n\n/logs:\nagent\nartifacts\n\n/tmp:\n" in log
    assert "cannot create /proc/sys/kernel/panic" in log
    assert log.endswith("shared\nCapEff:\t0000000000000000\n")


async def test_bubblewrap_shows_a_program_that_lies_where_the_sandbox_has_its_own_folder(bubblewrap_bench: Bench) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        program = Path(top, "inner", "program")
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho hello > out.txt\n")
        program.chmod(0o755)
        program.parent.chmod(0o755)
        status = await bubblewrap_bench.run(f"touch /tmp/own && exec {program}", read_only=[program.parent])
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}, bubblewrap_bench.log("agent")


async def test_bubblewrap_for_somebody_who_is_not_root(bubblewrap_bench: Bench) -> None:
    as_root = bubblewrap_bench.isolation.root
    bubblewrap_bench.isolation = replace(bubblewrap_bench.isolation, root=False, setpriv="")
    spec = bubblewrap_bench.spec("id -u; echo 1 > /proc/sys/kernel/panic; echo hello > out.txt")
    if as_root:  # this test runs as root: its programs become somebody else before they make a sandbox
        for phase in spec["phases"]:
            phase["user"], phase["drops"] = str(OTHER_UID), True
    status = await bubblewrap_bench.carry_out(spec)
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}, bubblewrap_bench.log("agent")
    assert bubblewrap_bench.log("agent").startswith(f"{OTHER_UID}\n")
    assert "cannot create /proc/sys/kernel/panic" in bubblewrap_bench.log("agent")


async def test_a_working_folder_keeps_the_name_that_its_task_gave_it(bubblewrap_bench: Bench) -> None:
    (bubblewrap_bench.task / "task.toml").write_text("[environment]\nworkdir = '/home/dev/project'\n")
    await bubblewrap_bench.run("pwd; ls -A /home/dev")
    assert bubblewrap_bench.log("agent") == "/home/dev/project\nproject\n"


async def test_the_uid_kind_runs_as_another_user_who_cannot_prepare_the_verifiers_folders(uid_bench: Bench) -> None:
    await uid_bench.run('id -u; id -G; mkdir "$TESTS_DIR" || mkdir "$LOGS_DIR/verifier" || echo refused')
    assert uid_bench.log("agent").startswith(f"{OTHER_UID}\n{OTHER_UID}\n")
    assert uid_bench.log("agent").endswith("refused\n")


async def test_set_uid_programs_give_no_rights(plain_bench: Bench) -> None:
    await plain_bench.run("grep NoNewPrivs /proc/self/status")
    assert plain_bench.log("agent").split() == ["NoNewPrivs:", "1"]


async def test_the_agent_dies_with_its_runner(plain_bench: Bench) -> None:
    mark = f"86400.{secrets.randbelow(10**9)}"
    backend = await plain_bench.backend()
    await backend.start(plain_bench.box(f"exec sleep {mark}"))
    await until(lambda: processes_with(f"sleep\0{mark}"), "the agent to run")
    status = plain_bench.status()
    assert status is not None
    os.kill(status["pid"], 9)
    await until(lambda: not processes_with(mark), "the agent to die")
    await backend.close()
