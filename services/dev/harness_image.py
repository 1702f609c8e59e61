"""`openforge harness image`: the image that brings a harness into containers and pods."""

from __future__ import annotations

import asyncio
import sys

from services.orchestrator.harnesses.adapter import load
from services.orchestrator.harnesses.image.recipe import Recipe, recipe
from services.orchestrator.harnesses.library import adapter_file


def print_dockerfile(name: str, folder: str) -> None:
    """Prints the Dockerfile of a harness.

    Raises:
        HarnessError: there is no such harness.
    """
    sys.stdout.write(_recipe(name, folder).dockerfile)


def build_harness_image(name: str, folder: str, host: str) -> None:
    """Builds the image of a harness unless it is there, and prints its name; what happens goes to standard error.

    Args:
        name: of the harness.
        folder: a user's own adapters; empty for none.
        host: address of the docker engine; empty for the usual one.

    Raises:
        HarnessError: there is no such harness.
        SandboxError: the engine does not answer, or the image could not be built.
    """
    made = _recipe(name, folder)
    asyncio.run(_build(made, host))
    sys.stdout.write(f"{made.image}\n")


async def _build(made: Recipe, host: str) -> None:
    from services.orchestrator.backends.docker.engine import connect
    from services.orchestrator.backends.docker.tools import ensure_harness_image

    docker = connect(host)
    try:
        await ensure_harness_image(docker, made, _say)
    finally:
        await docker.close()


def _recipe(name: str, folder: str) -> Recipe:
    file = adapter_file(name, folder)
    return recipe(file, load(file))


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
