"""The verbs of a stack that docker compose or Kubernetes keeps up. Heavy imports are inside: --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import ConfigFile, Sets, failing, finish


def engine(
    config: ConfigFile,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 8000,
    copy: Annotated[Path, typer.Option("--copy", help="Folder for the copy of the model that is served.")] = Path("serving"),
    sets: Sets = None,
) -> None:
    """Serve engine.model with vLLM, ready for pushes of weights, until SIGTERM. `openforge dev` starts one by itself.

    Example: openforge engine my.toml --host 0.0.0.0
    """
    from services.dev.deployed.engine import become_engine
    from services.dev.deployed.settings import deployed_config

    with failing(OSError):
        become_engine(deployed_config(config, sets or []), host, port, copy)


def start(config: ConfigFile, sets: Sets = None) -> None:
    """Begin the run of a stack that is up already, show how it goes, and print the summary at its end. Ctrl-C leaves the run
    alone; the same command looks at it again.

    Example: docker compose run --rm openforge start /etc/openforge/openforge.toml
    """
    from services.dev.deployed.settings import deployed_config
    from services.dev.deployed.start import start as start_run

    with failing():
        settings = deployed_config(config, sets or [])
    finish(start_run(settings))


VERBS = (engine, start)
