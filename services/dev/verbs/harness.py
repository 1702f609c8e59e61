"""The verbs of `openforge harness`. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

from services.dev.options import failing

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The programs that rollouts can be run in.")

HarnessDir = Annotated[str, typer.Option("--dir", help="Folder with adapters of your own.")]


@app.command("install")
def harness_install(names: Annotated[list[str], typer.Argument(metavar="NAME...")], folder: HarnessDir = "") -> None:
    """Install programs, pinned, each in a folder of its own under $OPENFORGE_CACHE (~/.cache/openforge).

    Example: openforge harness install codex pi
    """
    from services.dev.harness import install_harnesses

    with failing(OSError):
        install_harnesses(names, folder)


@app.command("list")
def harness_list(folder: HarnessDir = "") -> None:
    """List the programs that there are adapters for, and which of them are installed."""
    from rich.console import Console

    from services.dev.harness import list_harnesses

    with failing():
        list_harnesses(folder, Console())


@app.command("image")
def harness_image(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    show: Annotated[bool, typer.Option("--print", help="Print the Dockerfile and build nothing.")] = False,
    host: Annotated[str, typer.Option("--host", help="Docker engine; default: $DOCKER_HOST, else the usual socket.")] = "",
    folder: HarnessDir = "",
) -> None:
    """Build the image that brings a harness, and the runner, into containers and pods. Prints its name.

    Containers get it by themselves; for Kubernetes push it to a registry that your nodes pull from.

    Example: openforge harness image qwen
    """
    from services.dev.harness_image import build_harness_image, print_dockerfile

    with failing(OSError):
        if show:
            print_dockerfile(name, folder)
        else:
            build_harness_image(name, folder, host)
