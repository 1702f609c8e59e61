"""docker compose, as a user has it: the stack comes up, a run trains, and killing a proxy and a collector loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.dev.keys import make_keys

pytestmark = [pytest.mark.compose, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]
REPO = Path(__file__).parents[2]
SHORT = {
    "RUN__SEED": "1", "ORCHESTRATOR__REWARD": "coin", "ORCHESTRATOR__CONCURRENCY": "4", "TRAINER__STEPS": "2",
    "TRAINER__GROUPS": "2", "TRAINER__N": "4", "TRAINER__EVAL_EPISODES": "4", "TRAINER__WARM_START__STEPS": "20",
}  # fmt: skip
"""Two small steps. The coin stands in for the verifier, since what twenty steps of warm start teach is not rewarded yet."""


class Compose:
    """One project of its own."""

    def __init__(self, folder: Path) -> None:
        settings = {f"OPENFORGE__{name}": value for name, value in SHORT.items()}
        override = {
            "services": {n: {"environment": settings} for n in ("proxy", "orchestrator", "collector", "trainer", "engine")}
        }
        for server in ("nats", "redis", "proxy"):
            override["services"].setdefault(server, {})["ports"] = []  # type: ignore[assignment]
        (folder / "override.json").write_text(json.dumps(override))
        socket = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
        make_keys(folder / "keys")
        said = {"OPENFORGE_CONTROL_KEY": "0" * 32, "OPENFORGE_KEYS": str(folder / "keys"), "OPENFORGE_RUN": "composed"}
        said |= {"OPENFORGE_USER": f"{os.getuid()}:{os.getgid()}", "DOCKER_SOCKET": socket}
        self.env = os.environ | said
        self.killed: set[str] = set()
        self._start = ["docker", "compose", "-p", f"of{os.getpid()}", "-f", str(REPO / "docker-compose.yml"), "-f",
                       str(folder / "override.json"), "--project-directory", str(REPO)]  # fmt: skip

    def __call__(self, *words: str, within_s: float = 300.0) -> str:
        done = subprocess.run(
            [*self._start, *words], env=self.env, capture_output=True, text=True, timeout=within_s, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._start, *words], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def kill(self, *services: str) -> None:
        """One container of each service, with -9; the engine does not start it again."""
        for service in services:
            one = self("ps", "-q", service).split()[0]
            self.killed.add(one[:12])
            subprocess.run(["docker", "kill", "--signal", "KILL", one], env=self.env, check=True, stdout=subprocess.DEVNULL)

    def ends(self, *services: str) -> dict[str, int]:
        """Exit codes of stopped containers by name; of those that were killed here, nothing."""
        found = [json.loads(line) for line in self("ps", "-a", "--format", "json", *services).splitlines()]
        return {one["Name"]: one["ExitCode"] for one in found if one["ID"] not in self.killed}

    def until_status(self, code: int, *says: str, within_s: float = 150.0) -> None:
        """Waits until `openforge status`, asked within the stack, ends so and says that."""
        words, until = [*self._start, "run", "--rm", "-T", "openforge", "status"], time.monotonic() + within_s
        while True:
            done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode == code and all(text in done.stdout for text in says):
                return
            assert time.monotonic() < until, f"{done.returncode}: {done.stdout}{done.stderr[-2000:]}"
            time.sleep(1)

    def file(self, path: str) -> Any:
        return json.loads(self("run", "--rm", "-T", "--entrypoint", "cat", "openforge", path))


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Compose]:
    project = Compose(tmp_path)
    yield project
    project("--profile", "tools", "down", "--volumes", "--timeout", "5")


def test_profiles_add_what_watches_and_put_gpus_in_place_of_the_cpu(compose: Compose) -> None:
    compose.env |= {"COMPOSE_PROFILES": "gpu,observability", "OPENFORGE_CPU": "0"}
    services = json.loads(compose("config", "--format", "json"))["services"]
    assert {"engine-gpu", "trainer-gpu", "prometheus", "grafana"} < set(services)
    assert [services[name]["scale"] for name in ("engine", "trainer", "engine-gpu", "trainer-gpu")] == [0, 0, 1, 1]
    for cpu, gpu in (("engine", "engine-gpu"), ("trainer", "trainer-gpu")):
        assert services[gpu]["command"] == services[cpu]["command"]
        assert services[gpu]["volumes"] == services[cpu]["volumes"]
        assert services[gpu]["deploy"]["resources"]["reservations"]["devices"][0]["driver"] == "nvidia"


def test_a_run_trains_though_a_proxy_and_a_collector_are_killed(compose: Compose) -> None:
    compose("up", "-d", "--scale", "proxy=2", "--scale", "collector=3", within_s=600)
    demo = compose.begin("run", "--rm", "-T", "openforge", "demo")
    assert demo.stdout
    printed = []
    for line in demo.stdout:
        printed.append(line)
        if "step 1:" in line:
            compose.kill("proxy", "collector")
    assert demo.wait() == 0, (
        f"{''.join(printed)}\n{compose('logs', '--tail', '60', 'orchestrator', 'trainer', 'collector', 'proxy')}"
    )
    summary = compose.file("/runs/composed/summary.json")
    assert (summary["ok"], summary["steps"], summary["tokens_unaccounted"]) == (True, 2, 0)
    assert summary["tokens_trained"] > 0
    compose("stop")
    ends = compose.ends("engine", "proxy", "orchestrator", "collector", "trainer")
    assert len(ends) == 6
    assert set(ends.values()) == {0}, ends
