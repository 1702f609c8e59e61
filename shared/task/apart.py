"""A verifier in an environment of its own (`environment_mode = "separate"`): where it runs, and what it is handed. Pure but for
looks at which files there are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shared.task.dockerfile import workdir
from shared.task.folder import WORKDIR, Task
from shared.task.sections import Artifact, Environment, NetworkMode

PUBLISHED = "/logs/artifacts"
"""What an agent leaves there is handed over whether a task says so or not."""
_NEVER = ("/tests", "/logs/verifier", "/proc", "/sys", "/dev", "/openforge")


@dataclass(frozen=True, slots=True)
class Apart:
    """Where a separate verifier runs.

    Attributes:
        environment: [verifier.environment], else the task's.
        dockerfile: that its image is built from.
        image: to take instead; empty for none.
        bundled: the image is the verifier's own, and has the tests in it; else it is the task's, and gets them.
        workdir: working folder.
        network_mode: what the verifier asks to reach; None: nothing was said.
        artifacts: what it is handed, each at the place that the agent left it at.
    """

    environment: Environment
    dockerfile: Path | None
    image: str
    bundled: bool
    workdir: str
    network_mode: NetworkMode | None
    artifacts: tuple[Artifact, ...]


def apart(task: Task) -> Apart | None:
    """Where a task's verifier runs, if it does not share the agent's environment."""
    if not task.verifier.separate:
        return None
    own, recipe = task.verifier.environment, task.tests_dir / "Dockerfile"
    environment = own or task.environment
    if own and own.docker_image:
        file, image, bundled = None, own.docker_image, True
    elif recipe.is_file():
        file, image, bundled = recipe, "", True
    else:
        file, image, bundled = task.dockerfile, task.environment.docker_image or "", False
    folder = environment.workdir or (file and workdir(file.read_text(errors="replace")))
    return Apart(
        environment, file, image, bundled, folder or (WORKDIR if bundled else task.workdir),
        task.verifier.network_mode or environment.network_mode, _handed(task),
    )  # fmt: skip


def _handed(task: Task) -> tuple[Artifact, ...]:
    said = {artifact.source.rstrip("/"): artifact for artifact in task.artifacts}
    return (*said.values(), *(() if PUBLISHED in said else (Artifact(source=PUBLISHED),)))


def not_handed(artifact: Artifact, keeps: tuple[str, ...] = ()) -> str:
    """Why something cannot be handed to a separate verifier; empty if it can.

    Args:
        artifact: that is to be.
        keeps: folders whose content can be handed over; all by default.
    """
    source = PurePosixPath(artifact.source)
    if artifact.service not in (None, "main"):
        return "it is of another service, and sandboxes are one container"
    if not source.is_absolute() or source == PurePosixPath("/"):
        return "only what has an absolute path below / is handed over"
    if taken := next((folder for folder in _NEVER if source.is_relative_to(folder)), ""):
        return f"nothing of {taken} is handed over"
    if keeps and not any(source.is_relative_to(folder) for folder in keeps):
        return f"only what lies in {', '.join(keeps)} can be handed over here"
    return ""
