"""From a rollout to what its runner is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.orchestrator.gateway import Endpoint
from services.orchestrator.harnesses import Harness, Request
from services.orchestrator.sandbox import Isolation, PhaseName, Sandbox, log_folders
from services.orchestrator.spec import Copy, Phase, Spec
from services.orchestrator.verify import REWARD_FILES
from shared.config import Config
from shared.events import RolloutStart
from shared.task import Task, expand, refuse

LOG_BYTES = 1_000_000
GRACE_S = 1.0
RECIPES = ("Dockerfile", "docker-compose.yaml", "docker-compose.yml")
"""Of environment/, these describe a container and are no content of the working folder."""
_RUN_TESTS = ["/bin/sh", "-c", 'exec "$TESTS_DIR/test.sh"']


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one attempt is made of.

    Attributes:
        start: the command.
        task: its task.
        harness: its adapter.
        isolation: kind of sandbox.
        sandbox: folder of the sandbox, not there yet.
        record: folder in the run folder, for status and logs.
        endpoint: where its model calls go.
        host_env: variables that the task's `${NAME}` may refer to.
    """

    start: RolloutStart
    task: Task
    harness: Harness
    isolation: Isolation
    sandbox: Path
    record: Path
    endpoint: Endpoint
    host_env: Mapping[str, str]


def agent_limit(start: RolloutStart, task: Task, config: Config) -> float:
    """Wall-clock limit of the agent in seconds: the command's, else the task's, else the configured one."""
    return start.timeout_s or task.agent.timeout_sec or config.orchestrator.timeout_s


def plan(attempt: Attempt, config: Config) -> Spec:
    """The runner's spec.

    Raises:
        TaskError: the task needs a variable that is not set, a working folder that a sandbox cannot have, or something else
            that cannot be carried out here.
        HarnessError: the harness is not installed, or other users may not read it and the sandbox needs that.
    """
    task = attempt.task
    refuse(task, config.orchestrator.backend, config.orchestrator.network)
    sandbox = Sandbox(attempt.isolation, attempt.sandbox, task.workdir)
    env = expand(task.environment.env, attempt.host_env)
    return Spec(
        status=str(attempt.record / "status.json"), owner=attempt.isolation.owner,
        log_bytes=LOG_BYTES, grace_s=GRACE_S,
        phases=[_agent(attempt, sandbox, env, config), _verify(attempt, sandbox, env, config)],
    )  # fmt: skip


def _agent(attempt: Attempt, sandbox: Sandbox, env: dict[str, str], config: Config) -> Phase:
    host, seen = sandbox.host("agent"), sandbox.seen("agent")
    launch = attempt.harness.launch(
        Request(
            base_url=attempt.endpoint.base_url, key=attempt.endpoint.key,
            model=config.engine.served_name, context_length=config.engine.max_model_len,
            instruction=attempt.task.instruction, home=seen.home, logs=seen.logs, workdir=seen.app,
            metadata=attempt.task.metadata,
        )
    )  # fmt: skip
    attempt.isolation.check_readable(launch.read_only)
    phase = _phase(attempt, sandbox, "agent", list(launch.argv), launch.read_only)
    phase["fresh"] += [host.app, *(f"{host.logs}/{name}" for name in log_folders("agent"))]
    phase["copies"] = [Copy(source=str(attempt.task.environment_dir), target=host.app, skip=list(RECIPES))]
    phase["files"] = {f"{host.home}/{name}": text for name, text in launch.files.items()}
    phase["env"] |= env | launch.env
    phase["timeout_s"] = agent_limit(attempt.start, attempt.task, config)
    return phase


def _verify(attempt: Attempt, sandbox: Sandbox, env: dict[str, str], config: Config) -> Phase:
    host, task = sandbox.host("verify"), attempt.task
    phase = _phase(attempt, sandbox, "verify", _RUN_TESTS, ())
    phase["fresh"] += [host.tests, f"{host.logs}/verifier"]
    phase["copies"] = [Copy(source=str(task.tests_dir), target=host.tests, skip=[])]
    phase["executable"] = [f"{host.tests}/test.sh"]
    phase["env"] |= env | expand(task.verifier.env, attempt.host_env)
    phase["timeout_s"] = task.verifier.timeout_sec or config.orchestrator.verifier_timeout_s
    phase["collect"] = [f"{host.logs}/verifier/{name}" for name in REWARD_FILES]
    return phase


def _phase(attempt: Attempt, sandbox: Sandbox, name: PhaseName, program: list[str], read_only: tuple[Path, ...]) -> Phase:
    host = sandbox.host(name)
    return Phase(
        name=name, fresh=[host.home, host.tmp], copies=[], files={}, executable=[],
        argv=sandbox.command(name, program, read_only), env=sandbox.env(name), cwd=host.app, timeout_s=0.0,
        monitored=attempt.isolation.kind == "bubblewrap", log=str(attempt.record / f"{name}.log"), collect=[],
    )  # fmt: skip
