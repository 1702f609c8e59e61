"""The image builds, and says which one it is and what it was built of."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from services.synth.gates.bare import NULL
from services.synth.gates.base import Looking, told, trouble
from services.synth.model import Proposal, Verdict
from services.synth.ports import Room
from shared.config import OrchestratorConfig
from shared.task import load_task
from shared.task.dockerfile import instructions

_OF_THE_IMAGE = ("does-not-build", "does-not-run")


class Build(Looking):
    """In containers: the image is built (with a network), and an agent and a verifier run in it (without one).

    Args:
        settings: that say where sandboxes run.
    """

    name = "build"

    def __init__(self, settings: OrchestratorConfig) -> None:
        self._backend = settings.backend

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        if self._backend == "local":
            return self.skipped("local sandboxes build no image: set orchestrator.backend to docker to try it")
        ended = await room.trials.run(proposal.task_id, folder, [NULL])
        wrong = trouble(ended[0])
        if wrong and wrong[0] in _OF_THE_IMAGE:  # what its verifier does is for the gates after this one
            return self.failed(*wrong, trials=told(ended))
        return self.passed(**recipe(folder), image=ended[0].image, trials=told(ended))


def recipe(folder: Path) -> dict[str, Any]:
    """What an image is made of: the images it starts from, and a digest of all that is built."""
    task = load_task(folder)
    bases = [task.environment.docker_image] if task.environment.docker_image else []
    if task.dockerfile:
        bases = [rest for name, rest in instructions(task.dockerfile.read_text(errors="replace")) if name == "FROM"]
    digest = hashlib.sha256()
    for path in sorted(path for path in task.environment_dir.rglob("*") if path.is_file() and not path.is_symlink()):
        digest.update(f"{path.relative_to(task.environment_dir)}\0".encode() + path.read_bytes() + b"\0")
    return {"bases": bases, "recipe": f"sha256:{digest.hexdigest()}"}
