"""Networks and limits of local sandboxes, with real processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from services.orchestrator.sandbox import Isolation
from tests.unit.orchestrator.runners import OTHER_UID, Bench

PYTHON = "exec /usr/bin/python3 -c"


@pytest.fixture
def listening() -> Iterator[int]:
    """A service of this machine, which says a word to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    with server.accept()[0] as connection:
                        connection.sendall(b"welcome\n")
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def bash(script: str) -> str:
    return f"exec /bin/bash -c '{script}'"


async def test_an_agent_reaches_the_proxy_by_its_own_port_and_nothing_of_the_machine(
    bubblewrap_bench: Bench, listening: int
) -> None:
    bubblewrap_bench.proxy = f"http://127.0.0.1:{listening}/run/k"
    script = f"echo $BASE; cat < /dev/tcp/127.0.0.1/8080; cat < /dev/tcp/127.0.0.1/{listening}; cat < /dev/tcp/1.1.1.1/80"
    await bubblewrap_bench.run(bash(script))
    log = bubblewrap_bench.log("agent")
    assert log.startswith("http://127.0.0.1:8080/run/k\nwelcome\n")
    assert log.count("welcome") == 1
    assert "Connection refused" in log
    assert "Network is unreachable" in log


async def test_a_verifier_has_a_loopback_and_no_proxy(bubblewrap_bench: Bench, listening: int) -> None:
    bubblewrap_bench.proxy = f"http://127.0.0.1:{listening}/run/k"
    bubblewrap_bench.task.joinpath("tests/test.sh").write_text(
        "#!/bin/bash\ncat < /dev/tcp/127.0.0.1/8080\n(echo > /dev/tcp/127.0.0.1/9) 2>&1 | grep -q refused && echo loopback\n"
    )
    await bubblewrap_bench.run("true")
    assert "8080: Connection refused" in bubblewrap_bench.log("verify")
    assert bubblewrap_bench.log("verify").endswith("loopback\n")


async def test_a_task_that_asks_for_the_internet_shares_the_machines_network(bubblewrap_bench: Bench, listening: int) -> None:
    bubblewrap_bench.task.joinpath("task.toml").write_text('[environment]\nnetwork_mode = "public"\n')
    bubblewrap_bench.network = "task"
    bubblewrap_bench.proxy = f"http://127.0.0.1:{listening}/run/k"
    await bubblewrap_bench.run(bash(f"echo $BASE; cat < /dev/tcp/127.0.0.1/{listening}"))
    assert bubblewrap_bench.log("agent") == f"http://127.0.0.1:{listening}/run/k\nwelcome\n"


@pytest.mark.parametrize("kind", ["bubblewrap_bench", "uid_bench"])
async def test_an_agent_that_takes_too_much_memory_is_killed_and_verified_as_it_stands(
    kind: str, request: pytest.FixtureRequest
) -> None:
    bench: Bench = request.getfixturevalue(kind)
    if "memory" not in bench.isolation.groups.parents:
        pytest.skip("no control group for memory can be made here")
    bench.resources = {"memory_mb": 64}
    status = await bench.run(f"echo hello > out.txt; {PYTHON} 'x = b\"x\" * (256 << 20)'")
    agent = status["phases"]["agent"]
    assert (status["phase"], agent["exit_code"], agent["oom"]) == ("done", 137 if bench.isolation.network else -9, True)
    assert 30 < agent["used"]["memory_mb"] <= 64
    assert (status["phases"]["verify"]["collected"], status["phases"]["verify"]["oom"]) == ({"reward.txt": "1\n"}, False)


async def test_what_an_agent_used_is_told(bench: Bench) -> None:
    status = await bench.run(f"{PYTHON} 'import time\nx = b\"x\" * (50 << 20)\nwhile time.process_time() < 0.3: pass'")
    used = status["phases"]["agent"]["used"]
    assert used["memory_mb"] > 50
    assert 0.25 < used["cpu_s"] < 3


async def test_an_agent_that_fills_the_disk_is_ended(plain_bench: Bench) -> None:
    plain_bench.resources = {"storage_mb": 4}
    status = await plain_bench.run("for n in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero > $n; done; sleep 600")
    agent = status["phases"]["agent"]
    assert (status["phase"], agent["timed_out"], agent["limit"]) == ("done", True, "storage")


async def test_no_file_can_be_larger_than_the_disk_that_was_given(plain_bench: Bench) -> None:
    plain_bench.resources = {"storage_mb": 1}
    await plain_bench.run("head -c 5000000 /dev/zero > large; stat -c %s large")
    assert plain_bench.log("agent").endswith(f"{1 << 20}\n")


def test_the_plan_of_a_container_has_no_folder_of_this_machine(plain_bench: Bench) -> None:
    plain_bench.isolation = Isolation("container", True, OTHER_UID)
    spec = plain_bench.spec("true")
    agent, verify = spec["phases"]
    assert str(plain_bench.task.parent) not in str(spec)
    assert (agent["own"], agent["packages"]) == (["/app"], [{"package": "environment", "target": "/app"}])
    assert (agent["relay"], agent["network"], agent["env"]["BASE"]) == ("proxy", "shared", "http://127.0.0.1:8080/run/k")
    assert (verify["packages"], verify["fresh"]) == (
        [{"package": "tests", "target": "/tests"}], ["/home/agent", "/tests", "/logs/verifier"]
    )  # fmt: skip
    assert verify["relay"] == ""
    assert {phase["user"] for phase in spec["phases"]} == {"65534"}
