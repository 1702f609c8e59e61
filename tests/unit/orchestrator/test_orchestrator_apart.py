"""Verifiers in a sandbox of their own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import msgspec
import pytest

from shared.errors import AgentMemory, ForgeError, ImageError, TaskError
from shared.events import RolloutCancel, RolloutFailed, RolloutFinished, RolloutTimedOut
from shared.task import apart, load_task, unsupported
from shared.task.limits import Backend
from tests.twin_backend import Play
from tests.unit.orchestrator.house import KEY, RUN, House, MakeTask, commands, start, until
from tests.unit.orchestrator.test_orchestrator_driving import Theatre, stage
from tests.unit.orchestrator.test_orchestrator_service import ORCHESTRATOR

__all__ = ["stage"]

APART = """
artifacts = ["/app/out.txt", { source = "/app/results", exclude = ["*.tmp"] }]
[task]
name = "demo/apart"
[verifier]
environment_mode = "separate"
"""
BOTH = """
echo "$(ls "$APP_DIR")" >"$LOGS_DIR/verifier/saw.txt"
[ "$(cat out.txt)" = hello ] && [ "$(cat results/a.txt)" = a ] && [ ! -e results/b.tmp ] && [ ! -e trap.py ] &&
  [ "$(cat given.txt)" = given ] && [ "$(cat "$LOGS_DIR/artifacts/note")" = note ] && r=1 || r=0
echo $r >"$LOGS_DIR/verifier/reward.txt"
"""
GIVEN = {"environment/given.txt": "given\n"}
WRITE = (
    "echo hello > out.txt; mkdir results; echo a > results/a.txt; echo b > results/b.tmp; echo x > trap.py; "
    "echo changed > given.txt; echo note > $LOGS_DIR/artifacts/note"
)


@pytest.mark.parametrize("kind", ["bubblewrap", "uid"])
async def test_a_verifier_of_its_own_sees_the_task_as_it_was_and_what_the_task_hands_over(
    house: House, make_task: MakeTask, open_folder: Path, kind: str
) -> None:
    if kind == "uid" and os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    house.proxy.script = commands(WRITE)
    task = make_task(toml=APART, test=BOTH, files=GIVEN)
    async with house.orchestrator(sandbox=kind, work_root=str(open_folder)):
        await house.publish(start(task))
        outcome = await house.ear.outcome()
        assert isinstance(outcome, RolloutFinished), outcome
        assert outcome.reward == 1.0
        assert outcome.verify_s > 0
        await until(lambda: not list(open_folder.glob("*/r1*")), "both sandboxes to be cleared away")


@pytest.mark.parametrize("keeps", [False, True])
async def test_what_was_handed_over_stays_where_the_task_says_so(house: House, make_task: MakeTask, keeps: bool) -> None:
    house.proxy.script = commands(WRITE)
    toml = APART + f"[metadata]\nkeep_artifacts = {str(keeps).lower()}\n"
    async with house.orchestrator():
        await house.publish(start(make_task(toml=toml, test=BOTH, files=GIVEN)))
        outcome = await house.ear.outcome()
        assert isinstance(outcome, RolloutFinished), outcome
        await until(lambda: not list((house.root / "sandboxes").glob("*/r1*")), "both sandboxes to be cleared away")
        if not keeps:
            await until(lambda: not list(house.rollouts.glob("*/handover")), "what was handed over to go")
    left = sorted(path.name for path in house.rollouts.glob("*/handover/*/*"))
    assert left == (["artifacts", "out.txt", "results"] if keeps else [])


async def test_what_was_not_left_is_not_handed_over(house: House, make_task: MakeTask) -> None:
    house.proxy.script = commands("echo hello > other.txt")
    async with house.orchestrator():
        await house.publish(start(make_task(toml=APART, test=BOTH, files=GIVEN)))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    assert outcome.reward == 0.0


async def test_links_that_an_agent_leaves_lead_its_verifier_nowhere(house: House, make_task: MakeTask) -> None:
    secret = house.root / "secret.txt"
    secret.write_text("hello\n")
    house.proxy.script = commands(f"ln -s {secret} out.txt; ln -s {house.root} results")
    test = 'if [ -s out.txt ] || [ -e results/secret.txt ]; then echo 1; else echo 0; fi > "$LOGS_DIR/verifier/reward.txt"'
    async with house.orchestrator():
        await house.publish(start(make_task(toml=APART, test=test)))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    assert outcome.reward == 0.0


async def test_the_whole_working_folder_may_be_handed_over(house: House, make_task: MakeTask) -> None:
    toml = APART.replace('"/app/out.txt", { source = "/app/results", exclude = ["*.tmp"] }', '"/work/deep"')
    toml += '[environment]\nworkdir = "/work/deep"\n'
    house.proxy.script = commands("echo hello > out.txt; rm given.txt")
    test = 'if [ "$(ls)" = out.txt ]; then echo 1; else echo 0; fi > "$LOGS_DIR/verifier/reward.txt"'
    async with house.orchestrator():
        await house.publish(start(make_task(toml=toml, test=test, files=GIVEN)))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    assert outcome.reward == 1.0


async def test_an_agent_that_runs_out_of_time_is_verified_there_too(house: House, make_task: MakeTask) -> None:
    house.proxy.script = commands(f"{WRITE}; sleep 60")
    async with house.orchestrator():
        await house.publish(start(make_task(toml=APART, test=BOTH, files=GIVEN), timeout_s=2.0))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutTimedOut), outcome
    assert outcome.reward == 1.0


async def test_a_rollout_that_is_cancelled_while_its_verifier_runs_ends(house: House, make_task: MakeTask) -> None:
    house.proxy.script = commands("echo hello > out.txt")
    async with house.orchestrator():
        await house.publish(start(make_task(toml=APART, test="sleep 60")))
        await until(lambda: list(house.rollouts.glob("r1-a1-verify/status.json")), "the verifier's sandbox")
        await house.publish(RolloutCancel(run_id=RUN, rollout_id="r1", group_id="g1"))
        outcome = await house.ear.outcome()
        assert isinstance(outcome, RolloutFailed), outcome
        assert outcome.reason == "Cancelled"
        await until(lambda: not list((house.root / "sandboxes").glob("*/r1*")), "both sandboxes to be cleared away")


async def test_the_successor_of_one_that_was_killed_goes_on_with_the_verifier(house: House, make_task: MakeTask) -> None:
    house.proxy.script = commands(WRITE)
    task = make_task(toml=APART, test=f"sleep 3\n{BOTH}", files=GIVEN)
    arguments = [msgspec.json.encode(house.config()), KEY.encode(), msgspec.json.encode(start(task))]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ORCHESTRATOR, *arguments)
    await until(lambda: list(house.rollouts.glob("r1-a1-verify/status.json")), "the verifier's sandbox")
    process.kill()
    await process.wait()
    before = json.loads((house.rollouts / "r1-a1-verify" / "status.json").read_text())["pid"]
    async with house.orchestrator():
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    assert outcome.reward == 1.0
    after = json.loads((house.rollouts / "r1-a1-verify" / "status.json").read_text())["pid"]
    assert after == before, "no second one was started"


@pytest.mark.parametrize(
    ("error", "reason", "final"), [(AgentMemory("too much"), "VerifierError", True), (ImageError("gone"), "ImageError", False)]
)
async def test_the_end_of_the_verifiers_sandbox_is_never_the_agents_doing(
    stage: Theatre, make_task: MakeTask, error: ForgeError, reason: str, final: bool
) -> None:
    stage.plays["r1-a1-verify"] = Play(error=error)
    async with stage.orchestrator():
        await stage.ask(make_task(toml=APART))
        outcome = await stage.ear.outcome()
        assert isinstance(outcome, RolloutFailed), outcome
        assert (outcome.reason, outcome.stage, outcome.final) == (reason, "verify", final)
        if not final:
            assert isinstance(await stage.ear.outcome(attempt=2), RolloutFinished)
        await until(lambda: not stage.place.all(), "all sandboxes to be cleared away")
    assert not list((stage.root / RUN / "rollouts").glob("*/handover"))


REFUSED = [
    ("kubernetes", "", {"tests/Dockerfile": "FROM x:1\n"}, "pods get no image built"),
    ("kubernetes", 'user = "checker"\n', {}, "pods know users by number"),
    ("local", '[verifier.environment]\ndocker_image = "x:1"\n', {}, "have no images"),
    ("docker", "[verifier.environment]\ngpus = 1\n", {}, "accelerator"),
    ("docker", '[verifier.environment.healthcheck]\ncommand = "x"\n', {}, "healthcheck"),
    ("docker", "", {"tests/docker-compose.yaml": "services: {}\n"}, "docker-compose"),
    ("docker", 'network_mode = "public"\n', {}, "orchestrator.network=task"),
]


@pytest.mark.parametrize(("backend", "more", "files", "why"), REFUSED)
def test_what_cannot_be_carried_out_is_said(
    make_task: MakeTask, backend: Backend, more: str, files: dict[str, str], why: str
) -> None:
    task = load_task(make_task(toml=APART + more, files=files))
    (reason,) = unsupported(task, backend)
    assert why in reason


@pytest.mark.parametrize(
    ("source", "backend", "why"),
    [
        ("out.txt", "docker", "absolute path"), ("/", "docker", "absolute path"), ("/tests/x", "docker", "nothing of /tests"),
        ("/logs/verifier/reward.txt", "docker", "nothing of /logs/verifier"), ("/data/x", "local", "only what lies in /app"),
        ("/data/x", "kubernetes", "only what lies in /app"),
    ],
)  # fmt: skip
def test_what_cannot_be_handed_over_is_said(make_task: MakeTask, source: str, backend: Backend, why: str) -> None:
    toml = f"artifacts = ['{source}']\n[verifier]\nenvironment_mode = 'separate'\n"
    (reason,) = unsupported(load_task(make_task(toml=toml)), backend)
    assert reason.startswith(f"artifacts: {source}: ")
    assert why in reason


def test_tests_may_lie_in_the_verifiers_own_image(make_task: MakeTask) -> None:
    folder = make_task(toml=APART, files={"tests/Dockerfile": "FROM x:1\nWORKDIR /checks\n"})
    (folder / "tests" / "test.sh").unlink()
    where = apart(load_task(folder))
    assert where
    assert (where.bundled, where.workdir, where.image) == (True, "/checks", "")
    (folder / "tests" / "Dockerfile").unlink()
    with pytest.raises(TaskError, match=r"no tests/test\.sh"):
        load_task(folder)
