"""`openforge tasks check` in containers of a real engine: what tasks say of their image, users and steps holds there too."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path

import pytest

from services.dev.tasks.known import AsAccepted
from services.dev.tasks.trials import trials
from services.synth.books import Known, known_file, write
from services.synth.gates.build import Build
from shared.config import OrchestratorConfig
from shared.task import folder_digest
from tests.contract.conftest import docker_engine
from tests.e2e.test_tasks_check import check, openforge, steps
from tests.unit.dev import sets
from tests.unit.synth.gatehouse import PROPOSAL, good, judged

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("docker_engine")]

__all__ = ["docker_engine"]

DOCKERFILE = """FROM debian:bookworm-slim
RUN useradd --uid 1234 --create-home worker && mkdir /data && echo built >/data/built.txt
ENV FROM_IMAGE=yes PATH=/opt/own:$PATH
WORKDIR /work/deep
COPY seed.txt .
"""
WHOLE = """
[agent]
user = "{agent}"
[verifier]
user = "{verifier}"
[environment]
docker_image = "{image}"
env = {{ FROM_TASK = "yes" }}
[environment.healthcheck]
command = "echo $((1 + $(cat n 2>/dev/null || echo 0))) > n; [ $(cat n) -ge 2 ]"
interval_sec = 0.1
[solution]
env = {{ MODE = "fast" }}
"""
SOLVE = """#!/bin/sh
{
  id -un; pwd; cat seed.txt /data/built.txt /solution/answer
  echo $FROM_IMAGE $FROM_TASK $MODE $(cat n) $(hostname) $TZ
  echo "${PATH%%:*}"
} > out.txt
"""
TEST = """#!/bin/sh
[ -e "$HOME/solution" ] && echo the solution is seen
id -un
cat out.txt
cmp out.txt /tests/wanted && r=1 || r=0
echo $r > /logs/verifier/reward.txt
"""


def whole(folder: Path, name: str, agent: str, verifier: str, workdir: str = "/work/deep") -> None:
    """A task that says much, and whose verifier wants all of it to have been so."""
    task = WHOLE.format(agent=agent, verifier=verifier, image="").replace('docker_image = ""\n', "")
    parts = {
        "task.toml": task, "instruction.md": "Say who you are.\n", "environment/Dockerfile": DOCKERFILE,
        "environment/seed.txt": "seed\n", "solution/solve.sh": SOLVE, "solution/answer": "42\n", "tests/test.sh": TEST,
        "tests/wanted": f"{agent}\n{workdir}\nseed\nbuilt\n42\nyes yes fast 2 sandbox UTC\n/opt/own\n",
    }  # fmt: skip
    sets.put(folder / name, parts)


def test_users_image_environment_working_folder_and_health_check_hold_in_containers(tmp_path: Path) -> None:
    whole(tmp_path, "named", agent="worker", verifier="root")
    whole(tmp_path, "root", agent="root", verifier="worker")
    code, found = check(tmp_path, "--backend", "docker", timeout=500)
    for name, verifier in (("named", "root"), ("root", "worker")):
        oracle = found[name]["runs"]["oracle"][0]
        assert (oracle["reward"], oracle["error"]) == (1, ""), oracle
        assert f"--- verify ---\n{verifier}\n" in oracle["said"]
        assert "is seen" not in oracle["said"]
        assert found[name]["runs"]["null"][0]["reward"] == 0
    assert code == 0, found
    assert left_over() == ""


def test_steps_are_verified_one_after_the_other_in_containers(tmp_path: Path) -> None:
    unseen = '[ ! -e "$HOME/mine" ] && [ ! -e /tmp/trap ] && [ -z "$(ls /tests)" ]'
    steps(tmp_path, "good", f"grep -qx one out.txt && {unseen} && echo two > out.txt")
    first = tmp_path / "good" / "steps" / "first" / "solution" / "solve.sh"
    first.write_text(first.read_text() + "touch /tmp/trap\n")
    steps(tmp_path, "half", "exit 0")
    steps(tmp_path, "silent", "touch gone")
    code, found = check(tmp_path, "--backend", "docker", timeout=500)
    oracle = {name: entry["runs"]["oracle"][0] for name, entry in found.items()}
    assert {name: run["reward"] for name, run in oracle.items()} == {"good": 1, "half": 0.5, "silent": None}, oracle
    assert {entry["runs"]["null"][0]["reward"] for entry in found.values()} == {0}
    assert code == 1
    assert left_over() == ""


def test_what_cannot_be_built_is_said(tmp_path: Path) -> None:
    whole(tmp_path, "broken", agent="root", verifier="root")
    (tmp_path / "broken" / "environment" / "Dockerfile").write_text("FROM debian:bookworm-slim\nRUN echo no luck; exit 3\n")
    code, text = openforge("check", str(tmp_path), "--backend", "docker", timeout=300)
    assert code == 1
    assert "ImageError" in text
    assert "no luck" in text


APART = """
artifacts = ["/work/deep/out.txt", {{ source = "/data/made", exclude = ["*.tmp"] }}]
[agent]
user = "worker"
[verifier]
environment_mode = "separate"
{image}
"""
MAKE = """#!/bin/sh
mkdir -p /data/made && echo made >/data/made/a && echo no >/data/made/b.tmp
echo hello >out.txt; echo trap >/usr/local/bin/cmp; echo "note of $(id -un)" >/logs/artifacts/note
"""
SEE = """#!/bin/sh
cat /work/deep/out.txt /data/made/* /logs/artifacts/note /data/built.txt /checks/own.txt 2>/dev/null >seen
echo "$(hostname) $PWD $(ls /work/deep)"
cmp seen /tests/wanted && r=1 || r=0
echo $r > /logs/verifier/reward.txt
"""


def apart(folder: Path, wanted: str, *, image: str = "", **files: str) -> None:
    dockerfile = DOCKERFILE.replace("WORKDIR", "RUN chmod 777 /data /usr/local/bin\nWORKDIR")
    parts = {
        "task.toml": APART.format(image=image), "instruction.md": "Say hello.\n", "environment/Dockerfile": dockerfile,
        "environment/seed.txt": "seed\n", "solution/solve.sh": MAKE, "tests/test.sh": SEE, "tests/wanted": wanted,
    }  # fmt: skip
    sets.put(folder, parts | files)


def test_a_verifier_has_an_image_of_its_own_and_what_it_is_handed(tmp_path: Path) -> None:
    left = "hello\nmade\nnote of worker\n"
    apart(tmp_path / "fresh", left + "built\n")  # the task's image once more
    own = "FROM debian:bookworm-slim\nCOPY . /tests/\nRUN mkdir /checks && echo own >/checks/own.txt\nWORKDIR /checks\n"
    apart(tmp_path / "own", left + "own\n", **{"tests/Dockerfile": own})
    code, found = check(tmp_path, "--backend", "docker", timeout=500)
    oracle = {name: entry["runs"]["oracle"][0] for name, entry in found.items()}
    assert {name: (run["reward"], run["error"]) for name, run in oracle.items()} == {"fresh": (1, ""), "own": (1, "")}, oracle
    assert "sandbox /work/deep out.txt seed.txt" in oracle["fresh"]["said"].replace("\n", " ")
    assert "sandbox /checks out.txt" in oracle["own"]["said"]
    assert {entry["runs"]["null"][0]["reward"] for entry in found.values()} == {0}
    assert code == 0, found
    assert left_over() == ""


SERVE = """[metadata]
serve = "sh ./serve.sh"
[agent]
user = "worker"
"""
ANSWER = """while :; do
  perl -MIO::Socket -e '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$ENV{PORT}", Listen => 5, ReuseAddr => 1) or die;
    while ($c = $s->accept) { print $c "of the service\n"; close $c }'
done
"""
ASK = """#!/bin/sh
perl -MIO::Socket -e '($a) = $ENV{SERVICE_URL} =~ m{//(.*)}; print IO::Socket::INET->new($a)->getline' >out.txt
"""


def test_a_service_answers_beside_the_agent_in_containers(tmp_path: Path) -> None:
    parts = {
        "instruction.md": "Ask.\n",
        "environment/Dockerfile": DOCKERFILE.replace("COPY seed.txt", "COPY --chown=worker serve.sh"),
        "environment/serve.sh": ANSWER, "solution/solve.sh": ASK, "task.toml": SERVE,
        "tests/test.sh": "#!/bin/sh\ngrep -qx 'of the service' out.txt && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n",
    }  # fmt: skip
    sets.put(tmp_path / "served", parts)
    sets.put(tmp_path / "unserved", parts | {"environment/serve.sh": "echo no such port; exit 3\n"})
    code, found = check(tmp_path, "--backend", "docker", timeout=500)
    assert code == 1
    assert [found["served"]["runs"][agent][0]["reward"] for agent in ("null", "oracle")] == [0, 1], found["served"]
    assert "the service ended before it answered" in found["unserved"]["runs"]["oracle"][0]["error"]
    assert "no such port" in found["unserved"]["runs"]["oracle"][0]["error"]
    assert left_over() == ""


async def test_a_task_whose_image_is_not_the_one_that_it_was_accepted_in_is_seen(tmp_path: Path) -> None:
    named = "bound-" + secrets.token_hex(4)
    made = good(
        tmp_path / named, **{"environment/Dockerfile": f"FROM debian:bookworm-slim\nLABEL x={named}\nCOPY numbers.txt /app/\n"}
    )
    settings = OrchestratorConfig(backend="docker")
    async with trials(settings) as running:
        built = await judged(Build(settings), made, running)
    image, tag = built.evidence["image"], tag_of(named)
    assert docker("inspect", "--format", "{{.Id}}", tag) == image
    known = Known(
        proposal=PROPOSAL, digest=folder_digest(made), run="run1", rounds=0, at=0.0, split="train", verdicts=[], image=image
    )
    write(known_file(made), known)
    try:
        async with trials(settings) as running:
            assert (await judged(AsAccepted(settings), made, running)).outcome == "passed"
        docker("tag", "debian:bookworm-slim", tag)  # as if what it is built from had changed
        async with trials(settings) as running:
            verdict = await judged(AsAccepted(settings), made, running)
    finally:
        docker("rmi", "--force", tag, image)
    assert (verdict.reason, verdict.evidence["accepted"]) == ("other-image", image)
    assert left_over() == ""


def tag_of(task: str) -> str:
    """The name of a task's image."""
    return docker("images", "--format", "{{.Repository}}:{{.Tag}}", f"openforge-task-{task}")


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout.strip()


def left_over() -> str:
    """Containers of checks that are still there."""
    return docker("ps", "-aq", "--filter", "name=openforge-check-")
