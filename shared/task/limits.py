"""What a task asks for that a backend cannot carry out: refused by name before a sandbox is made, never left out in silence."""

from __future__ import annotations

from typing import Literal

from shared.errors import TaskError
from shared.task.apart import Apart, apart, not_handed
from shared.task.folder import COMPOSE, Task

Backend = Literal["local", "docker", "kubernetes"]
_ROOT = ("root", "0", 0)
_FOLDERS = ("/logs", "/home/agent", "/tmp")
"""Of every sandbox, whoever its user is."""


def refuse(task: Task, backend: Backend, network: Literal["none", "task"] = "none") -> None:
    """Does nothing if a backend can carry a task out.

    Args:
        task: as loaded.
        backend: where it is to run.
        network: `orchestrator.network`: whether tasks may reach the internet when they ask for it.

    Raises:
        TaskError: it cannot; all reasons, each with what to do.
    """
    if reasons := unsupported(task, backend, network):
        raise TaskError(f"{task.name} cannot run here: {'; '.join(reasons)}")


def unsupported(task: Task, backend: Backend, network: Literal["none", "task"] = "none") -> list[str]:
    """Why a backend cannot carry a task out; empty if it can."""
    own = _local(task) if backend == "local" else _pod(task) if backend == "kubernetes" else []
    return [*_machine(task), *_network(task.network, network), *_parts(task), *_apart(task, backend, network), *own]


def _machine(task: Task) -> list[str]:
    environment, reasons = task.environment, []
    if environment.os != "linux":
        reasons.append(f"environment.os = {environment.os!r}: sandboxes are Linux")
    if environment.gpus or environment.tpu:
        reasons.append("environment.gpus or tpu: sandboxes have no accelerator; leave it out if the task can do without")
    if task.compose:
        reasons.append(f"environment/{task.compose.name}: sandboxes are one container; put its services into the Dockerfile")
    return reasons


def _network(wanted: str | None, allowed: Literal["none", "task"]) -> list[str]:
    if wanted == "allowlist":
        return ['network_mode = "allowlist": a sandbox reaches nothing or everything; use "no-network" or "public"']
    if wanted == "public" and allowed == "none":
        return ['network_mode = "public": this run lets no sandbox reach the internet; pass --set orchestrator.network=task']
    return []


def _parts(task: Task) -> list[str]:
    environment, reasons = task.environment, []
    if environment.mcp_servers:
        reasons.append("environment.mcp_servers: harnesses are not told of MCP servers; offer the tools as programs")
    if environment.skills_dir:
        reasons.append("environment.skills_dir: harnesses are not told of skills; put them into the working folder")
    if any(step.verifier.collect for step in task.steps):
        reasons.append("verifier.collect: nothing of the agent's runs any more when the verifier begins; use tests/test.sh")
    if (task.folder / "trajectory.json").exists():
        reasons.append(
            "trajectory.json: agents do not start from an earlier conversation; say in the instruction what was done"
        )
    return [*reasons, *_steps(task)]


def _steps(task: Task) -> list[str]:
    reasons = []
    for step in task.steps if len(task.steps) > 1 else ():
        if step.files.is_dir():
            reasons.append(f"steps/{step.name}/workdir: nothing is put under an agent's hands on the way; use environment/")
        if step.healthcheck:
            reasons.append(
                f"steps.healthcheck of {step.name}: checks are made before the first step; use environment.healthcheck"
            )
    return reasons


def _apart(task: Task, backend: Backend, network: Literal["none", "task"]) -> list[str]:
    """What speaks against a verifier in an environment of its own."""
    if not any(step.verifier.separate for step in task.steps):
        return []
    mode = 'verifier.environment_mode = "separate"'
    where = apart(task) if len(task.steps) == 1 else None
    if where is None:
        return [f'{mode}: the verifiers of a task of several steps share the agent\'s environment; use "shared"']
    reasons = _network(where.network_mode, network)
    if where.environment.os != "linux" or where.environment.gpus or where.environment.tpu:
        reasons.append("verifier.environment: sandboxes are Linux, without an accelerator")
    if task.verifier.environment and where.environment.healthcheck:
        reasons.append("verifier.environment.healthcheck: a verifier begins at once; let tests/test.sh wait")
    if any((task.tests_dir / name).is_file() for name in COMPOSE):
        reasons.append("tests/docker-compose.yaml: sandboxes are one container; put its services into tests/Dockerfile")
    if backend == "local" and where.image and where.bundled:
        reasons.append('verifier.environment.docker_image: local sandboxes have no images; use orchestrator.backend = "docker"')
    keeps: tuple[str, ...] = ()
    if backend == "local":
        keeps = (task.workdir, *_FOLDERS)
    if backend == "kubernetes":
        reasons += _pod_apart(task, where)
        keeps = () if task.verifier.user in _ROOT else (where.workdir, *_FOLDERS)
    handed = [(artifact.source, not_handed(artifact, keeps)) for artifact in where.artifacts]
    return [*reasons, *(f"artifacts: {source}: {why}" for source, why in handed if why)]


def _pod_apart(task: Task, where: Apart) -> list[str]:
    reasons, user = [], task.verifier.user
    if where.bundled and where.dockerfile:
        reasons.append("tests/Dockerfile: pods get no image built; push one, and name it as verifier.environment.docker_image")
    if user is not None and user not in _ROOT and not str(user).isdecimal():
        reasons.append(f"verifier.user = {user!r}: pods know users by number; give the image's number of it, or 'root'")
    return reasons


def _pod(task: Task) -> list[str]:
    reasons = []
    if task.dockerfile:
        reasons.append("environment/Dockerfile: pods get no image built; push one, and name it as environment.docker_image")
    verifiers = {str(step.verifier.user) for step in task.steps if step.verifier.user is not None}
    if not task.verifier.separate and task.user not in _ROOT and verifiers - {task.user}:
        reasons.append("verifier.user: a pod that is not root's has one user; let agent.user be the same, or root")
    return reasons


def _local(task: Task) -> list[str]:
    reasons = []
    if task.environment.docker_image:
        reasons.append('environment.docker_image: local sandboxes have no images; use orchestrator.backend = "docker"')
    if {str(part.user) for step in task.steps for part in (step.agent, step.verifier)} & set(_ROOT):
        reasons.append('agent.user or verifier.user is root: not in local sandboxes; use orchestrator.backend = "docker"')
    return reasons
