"""`openforge plot`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import Root, failing


def plot(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id; default: the newest.")] = "",
    root: Root = Path("runs"),
) -> None:
    """Draw reward and held-out success per step of a run, alive or not, as training.png in its folder.

    Example: openforge plot 20261129-215536-34bd
    """
    from services.dev.archives import open_run
    from services.trainer.books.picture import draw_run

    with failing(OSError):
        sys.stdout.write(f"{draw_run(open_run(root, run_id).folder)}\n")
