"""What serves an agent beside it, in every kind of sandbox that this machine can give."""

from __future__ import annotations

import secrets

import pytest

from shared.errors import TaskError
from shared.task import load_task
from tests.unit.orchestrator.runners import Bench, ended, processes_with

PAGES = "/usr/bin/python3 -m http.server --bind 127.0.0.1 $PORT"
READ = 'import os, urllib.request as u; print(u.urlopen(os.environ["SERVICE_URL"] + "/seed.txt").read().decode())'
ASK = f"/usr/bin/python3 -c '{READ}'"


def serve(bench: Bench, command: str) -> None:
    bench.task.joinpath("task.toml").write_text(f"[metadata]\nserve = '''{command}'''\n")
    bench.task.joinpath("environment").mkdir()
    bench.task.joinpath("environment/seed.txt").write_text("from the service")


async def test_a_service_answers_when_the_agent_starts_and_is_gone_when_the_verifier_does(bench: Bench) -> None:
    mark = f"86400.{secrets.randbelow(10**9)}"
    serve(bench, f"sleep {mark} & sleep 0.3; exec {PAGES} 2>>requests.txt")
    bench.task.joinpath("tests/test.sh").write_text('#!/bin/sh\ngrep -c GET requests.txt >"$LOGS_DIR/verifier/reward.txt"\n')
    status = await bench.run(f"{ASK} && env | grep -c ^PORT=")
    assert status["error"] is None
    assert bench.log("agent") == "from the service\n0\n"
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}
    assert processes_with(mark) == []


async def test_a_service_gets_what_the_task_sets_but_nothing_of_the_harness(plain_bench: Bench) -> None:
    serve(plain_bench, f"env | sort >service.txt; exec {PAGES} 2>/dev/null")
    toml = plain_bench.task / "task.toml"
    toml.write_text(toml.read_text() + '[environment]\nenv = { OF_TASK = "yes" }\n')
    await plain_bench.run("cat service.txt")
    names = {line.partition("=")[0] for line in plain_bench.log("agent").splitlines()}
    assert {"OF_TASK", "PORT", "APP_DIR", "LOGS_DIR"} <= names
    assert not {"BASE", "SERVICE_URL"} & names


async def test_a_service_that_ends_at_once_fails_the_attempt_because_of_its_task(bench: Bench) -> None:
    serve(bench, "echo no such config; exit 3")
    status = await bench.run("echo the agent ran > out.txt")
    assert (status["phase"], status.get("of_task"), status["phases"]) == ("failed", True, {})
    assert "no such config" in str(status["error"])
    assert "metadata.serve: the service ended before it answered on 127.0.0.1:$PORT" in str(status["error"])


async def test_a_service_that_never_answers_fails_the_attempt_because_of_its_task(bench: Bench) -> None:
    serve(bench, "exec sleep 600")
    spec = bench.spec("echo the agent ran")
    spec["phases"][0]["service"]["wait_s"] = 0.4
    status = await bench.carry_out(spec)
    assert (status["phase"], status.get("of_task")) == ("failed", True)
    assert "nothing answered on 127.0.0.1:$PORT within 0.4 s" in str(status["error"])


async def test_an_agent_that_ends_as_if_its_service_had_failed_is_an_agent_that_ended(bench: Bench) -> None:
    serve(bench, PAGES)
    status = await bench.run("exit 126")
    assert (status["phase"], status["phases"]["agent"]["exit_code"], "verify" in status["phases"]) == ("done", 126, True)


async def test_an_agent_has_no_child_that_it_does_not_know(plain_bench: Bench) -> None:
    serve(plain_bench, PAGES)
    status = await plain_bench.run("exec /usr/bin/python3 -c 'import os; os.wait()'")
    assert "ChildProcessError" in plain_bench.log("agent")
    assert status["phase"] == "done"


async def test_sandboxes_with_a_network_of_their_own_have_the_same_address_all_others_one_each(
    bubblewrap_bench: Bench, plain_bench: Bench
) -> None:
    serve(bubblewrap_bench, PAGES)
    await bubblewrap_bench.run('echo "$SERVICE_URL"')
    assert bubblewrap_bench.log("agent").split()[-1] == "http://127.0.0.1:8000"
    backend = await plain_bench.backend()
    for n in (1, 2):
        await backend.start(plain_bench.box('echo "$SERVICE_URL"; sleep 1', f"r{n}-a1"))
    for n in (1, 2):
        await ended(backend, f"r{n}-a1")
    await backend.close()
    urls = {plain_bench.log("agent", f"r{n}-a1").split()[-1] for n in (1, 2)}
    assert len(urls) == 2


def test_a_command_that_is_none_is_said(plain_bench: Bench) -> None:
    plain_bench.task.joinpath("task.toml").write_text("[metadata]\nserve = 7\n")
    with pytest.raises(TaskError, match=r"metadata\.serve: expected a shell command"):
        load_task(plain_bench.task)
