"""From a rollout to what its runner is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

from services.orchestrator.backends.port import Resources
from services.orchestrator.cgroups import rlimits
from services.orchestrator.clock import Seen, clock_of
from services.orchestrator.gateway import Endpoint
from services.orchestrator.harnesses import Harness, Request
from services.orchestrator.runner.relay import HOST, PORT
from services.orchestrator.sandbox import SOLUTION, Isolation, PhaseName, Sandbox, log_folders
from services.orchestrator.spec import PROXY, Copy, Phase, Service, Spec, Unpack, longest, phase_name
from services.orchestrator.verify import REWARD_FILES
from shared.config import Config
from shared.errors import TaskError
from shared.events import RolloutStart
from shared.task import Task, apart, expand, refuse
from shared.task.sections import Environment

LOG_BYTES = 1_000_000
GRACE_S = 1.0
SERVICE_PORT, SERVICE_S = 8000, 30.0
"""Of what serves an agent: where, and how many seconds it may take to answer."""
SPARE_S = 900.0
"""Beyond the limits of all phases before a runner gives itself up: the proxy may be away for ten minutes, files take time."""
ENVIRONMENT, TESTS = "environment", "tests"
"""Names of the packages that a container's runner fetches; further folders of tests are `tests-2`, `tests-3`..."""
IN_ROOT = f"/{SOLUTION}"
"""Where a solution finds itself, besides its place in the home folder."""
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
        limit_s: wall-clock limit of an agent for which neither the command nor the task says one.
        clock: of the command, else `orchestrator.clock`.
    """

    start: RolloutStart
    task: Task
    harness: Harness
    isolation: Isolation
    sandbox: Path
    record: Path
    endpoint: Endpoint
    host_env: Mapping[str, str]
    limit_s: float
    clock: str = ""

    def seen(self, name: PhaseName) -> Seen:
        """What has a phase's programs see the time that they are to see.

        Raises:
            ConfigError: the clock is to be set, and what that takes is not installed.
        """
        shown = self.clock and (name == "verify" or self.start.clock_for == "all")
        return clock_of(self.clock, self.isolation.kind, f"{self.sandbox}/{name}/clock") if shown else Seen()


def packages_of(task: Task, spec: Spec) -> dict[str, Path]:
    """Folders of this machine that a container's runner fetches, by the names that its spec has for them."""
    wanted = {package["package"] for phase in spec["phases"] for package in phase["packages"]}
    return {name: folder for name, folder in _folders(task).items() if name in wanted}


def _folders(task: Task) -> dict[str, Path]:
    tests = dict.fromkeys(folder for step in task.steps for folder in step.tests)
    found = {ENVIRONMENT: task.environment_dir} | {phase_name(TESTS, n): folder for n, folder in enumerate(tests)}
    return found | {phase_name(SOLUTION, n): step.solution for n, step in enumerate(task.steps)}


def resources_of(wanted: Environment, config: Config) -> Resources:
    """What a sandbox may use: what the task says, else what is configured."""
    usual = config.orchestrator.resources
    return Resources(
        wanted.cpus or usual.cpus or None, wanted.memory_mb or usual.memory_mb or None,
        wanted.storage_mb or usual.storage_mb or None, usual.pids or None,
    )  # fmt: skip


def plan(attempt: Attempt, config: Config) -> Spec:
    """The runner's spec.

    Raises:
        TaskError: the task needs a variable that is not set, a working folder that a sandbox cannot have, or something else
            that cannot be carried out here.
        HarnessError: the harness is not installed, or other users may not read it and the sandbox needs that.
        ConfigError: the clock is to be set, and what that takes is not installed.
    """
    task = attempt.task
    refuse(task, config.orchestrator.backend, config.orchestrator.network)
    sandbox = Sandbox(attempt.isolation, attempt.sandbox, task.workdir)
    env = expand(task.environment.env, attempt.host_env)
    phases = _health(attempt, sandbox, env)
    for number in range(len(task.steps)):
        phases.append(_agent(attempt, sandbox, env, config, number))
        if not task.verifier.separate:
            phases.append(verify_phase(attempt, sandbox, env, config, number))
    spec = spec_of(attempt, config, resources_of(task.environment, config), phases)
    if len(task.steps) > 1:
        spec["strategy"] = task.strategy
    if (where := apart(task)) and config.orchestrator.backend == "kubernetes":  # nothing is to be had of a pod that has ended
        spec["leaves"] = [sandbox.path_of(artifact.source.rstrip("/")) for artifact in where.artifacts]
    return spec


def spec_of(attempt: Attempt, config: Config, resources: Resources, phases: list[Phase]) -> Spec:
    """The spec with these phases."""
    groups = attempt.isolation.groups
    name = f"{attempt.start.run_id}-{attempt.record.name}-{crc32(bytes(attempt.sandbox)):08x}"
    spec = Spec(
        status="" if attempt.isolation.kind == "container" else str(attempt.record / "status.json"),
        deadline_s=0.0, log_bytes=LOG_BYTES, lease_s=config.orchestrator.stages.lease_s, grace_s=GRACE_S,
        cgroups=groups.plan(name, resources),
        rlimits=rlimits(groups, resources, config.orchestrator.concurrency if attempt.isolation.root else 1),
        phases=phases,
    )  # fmt: skip
    spec["deadline_s"] = longest(spec) + SPARE_S
    return spec


def _agent(attempt: Attempt, sandbox: Sandbox, env: dict[str, str], config: Config, number: int) -> Phase:
    seen, step = sandbox.seen("agent"), attempt.task.steps[number]
    launch = attempt.harness.launch(
        Request(
            base_url=seen_url(attempt), key=attempt.endpoint.key,
            model=config.engine.served_name, context_length=config.engine.max_model_len,
            instruction=step.instruction, home=seen.home, logs=seen.logs, workdir=seen.app,
            metadata=attempt.task.metadata, in_image=attempt.isolation.kind == "container",
        )
    )  # fmt: skip
    attempt.isolation.check_readable(launch.read_only)
    phase = _phase(attempt, sandbox, "agent", list(launch.argv), launch.read_only, launch.solution)
    if number:
        _go_on(phase, attempt, sandbox, number)
    elif not attempt.task.environment.healthcheck:
        begin(phase, attempt, sandbox)
    if attempt.isolation.kind == "container" and step.agent.user is not None:
        phase["user"] = str(step.agent.user)
    phase["files"] = {f"{sandbox.host('agent').home}/{name}": text for name, text in launch.files.items()}
    if command := attempt.task.serve:
        phase["service"] = _service(attempt, sandbox, phase["env"] | env, command)
    phase["env"] |= env | launch.env
    if launch.solution and config.orchestrator.backend == "kubernetes":
        raise TaskError("solutions are not run in pods; use orchestrator.backend = 'docker' or 'local'")
    if launch.solution:
        _add_solution(phase, attempt, number, f"{sandbox.host('agent').home}/{SOLUTION}")
    phase["timeout_s"] = attempt.start.timeout_s or step.agent.timeout_sec or attempt.limit_s
    phase["relay"] = relay_of(attempt)
    phase["idle_s"] = config.orchestrator.stages.idle_s if phase["relay"] else 0.0
    phase["storage_mb"] = resources_of(attempt.task.environment, config).storage_mb or 0
    return phase


def _service(attempt: Attempt, sandbox: Sandbox, env: dict[str, str], command: str) -> Service:
    """What serves the agent. Its port is the same in every sandbox that has a network of its own, so that prompts are, too."""
    contained = attempt.isolation.kind == "container"
    own = contained or (attempt.isolation.network and attempt.task.network == "none")
    seen = attempt.seen("agent")
    argv = sandbox.command("agent", [*seen.command, "/bin/sh", "-c", command], followed=False, files=seen.files)
    return Service(argv=argv, env=dict(env), port=SERVICE_PORT if own else 0, wait_s=SERVICE_S)


def _add_solution(phase: Phase, attempt: Attempt, number: int, target: str) -> None:
    """For the harness `oracle`: the task's own solution, and its environment."""
    source = attempt.task.steps[number].solution
    if not (source / "solve.sh").is_file():
        raise TaskError(f"{attempt.task.name} has no {source.relative_to(attempt.task.folder)}/solve.sh")
    places = [target]
    if attempt.isolation.kind == "container":
        places.append(IN_ROOT)
        phase["packages"] += [Unpack(package=phase_name(SOLUTION, number), target=place) for place in places]
    else:
        phase["copies"].append(Copy(source=str(source), target=target, skip=[]))
    phase["fresh"] += places
    phase["executable"] += [f"{place}/solve.sh" for place in places]
    phase["env"] |= expand(attempt.task.solution.env, attempt.host_env)


def solves(agent: Phase) -> bool:
    """Whether a phase's program is the task's own solution."""
    return any(folder.endswith(f"/{SOLUTION}") for folder in agent["fresh"])


def _health(attempt: Attempt, sandbox: Sandbox, env: dict[str, str]) -> list[Phase]:
    """What must succeed before the agent starts, if the task has that. It begins what the agent goes on with."""
    check = attempt.task.environment.healthcheck
    if not check:
        return []
    phase = _phase(attempt, sandbox, "agent", ["/bin/sh", "-c", check.command], ())
    begin(phase, attempt, sandbox)
    _rename(phase, attempt, "health")
    phase["env"] |= env
    phase["timeout_s"], phase["interval_s"] = check.timeout_sec, check.interval_sec
    phase["tries"] = check.retries + int(check.start_period_sec // max(check.start_interval_sec, 1.0))
    return [phase]


def begin(phase: Phase, attempt: Attempt, sandbox: Sandbox) -> None:
    """The first phase of a sandbox lays out the task's working folder."""
    host, task = sandbox.host("agent"), attempt.task
    phase["fresh"] += [f"{host.logs}/{name}" for name in log_folders("agent")]
    if attempt.isolation.kind != "container":
        phase["fresh"].append(host.app)
        phase["copies"].append(Copy(source=str(task.environment_dir), target=host.app, skip=list(RECIPES)))
        return
    phase["own"] = [host.app]
    if not task.dockerfile and not task.environment.docker_image:
        phase["packages"].append(Unpack(package=ENVIRONMENT, target=host.app))


def relay_of(attempt: Attempt) -> str:
    """Where the sandbox's calls to its own port 8080 are carried; empty where it reaches the proxy itself."""
    if attempt.isolation.kind == "container":
        return PROXY
    own = attempt.isolation.network and attempt.task.network == "none"
    return f"tcp:{urlsplit(attempt.endpoint.base_url).netloc}" if own else ""


def seen_url(attempt: Attempt) -> str:
    """Where the harness finds its model: the same in every sandbox with a relay."""
    url = urlsplit(attempt.endpoint.base_url)
    return url._replace(netloc=f"{HOST}:{PORT}").geturl() if relay_of(attempt) else attempt.endpoint.base_url


def _go_on(phase: Phase, attempt: Attempt, sandbox: Sandbox, number: int) -> None:
    """A further step goes on with the working folder, and with nothing that could be a trap or of the verifier."""
    host = sandbox.host("agent")
    _rename(phase, attempt, phase_name("agent", number))
    phase["fresh"] += [f"{host.logs}/agent", f"{host.logs}/verifier", host.tests]
    if attempt.isolation.kind == "container":
        phase["fresh"].append(host.tmp)


def _rename(phase: Phase, attempt: Attempt, name: str) -> None:
    phase["name"], phase["log"] = name, phase["log"] and str(attempt.record / f"{name}.log")


def verify_phase(attempt: Attempt, sandbox: Sandbox, env: dict[str, str], config: Config, number: int) -> Phase:
    """The verification of a step."""
    host, task, step = sandbox.host("verify"), attempt.task, attempt.task.steps[number]
    phase = _phase(attempt, sandbox, "verify", _RUN_TESTS, ())
    phase["fresh"] += [host.tests, f"{host.logs}/verifier"]
    if attempt.isolation.kind == "container":
        names = {folder: name for name, folder in _folders(task).items()}
        phase["packages"] = [Unpack(package=names[tests], target=host.tests) for tests in step.tests]
        phase["user"] = phase["user"] if step.verifier.user is None else str(step.verifier.user)
    else:
        phase["copies"] = [Copy(source=str(tests), target=host.tests, skip=[]) for tests in step.tests]
    phase["executable"] = [f"{host.tests}/test.sh"]
    phase["env"] |= env | expand(step.verifier.env, attempt.host_env)
    phase["timeout_s"] = step.verifier.timeout_sec or config.orchestrator.verifier_timeout_s
    phase["collect"] = [f"{host.logs}/verifier/{name}" for name in REWARD_FILES]
    _rename(phase, attempt, phase_name("verify", number))
    if number + 1 < len(task.steps):
        wanted = step.min_reward
        phase["at_least"] = wanted if isinstance(wanted, dict) else {} if wanted is None else {"reward": wanted}
    return phase


def _phase(
    attempt: Attempt, sandbox: Sandbox, name: PhaseName, program: list[str], read_only: tuple[Path, ...], solution: bool = False
) -> Phase:
    host, contained = sandbox.host(name), attempt.isolation.kind == "container"
    own = attempt.isolation.network and attempt.task.network == "none"
    seen = attempt.seen(name)
    phase = Phase(
        name=name, user=(contained and attempt.task.user) or attempt.isolation.owner, drops=contained,
        fresh=[host.home] if contained else [host.home, host.tmp], own=[], copies=[], packages=[],
        files={}, executable=[],
        argv=sandbox.command(name, [*seen.command, *program], read_only, solution, files=seen.files),
        env=sandbox.env(name) | seen.env | attempt.start.env, cwd=host.app,
        network="own" if own else "shared", relay="", timeout_s=0.0, idle_s=0.0, storage_mb=0,
        tries=0, interval_s=0.0, monitored=attempt.isolation.kind == "bubblewrap",
        log="" if contained else str(attempt.record / f"{name}.log"), collect=[],
    )  # fmt: skip
    phase["fresh"] += seen.fresh
    if seen.clock:
        phase["clock"] = seen.clock
    return phase
