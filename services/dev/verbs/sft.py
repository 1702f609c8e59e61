"""`openforge sft`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import AsJson, ConfigFile, Sets, failing


def sft(
    config: ConfigFile,
    data: Annotated[str, typer.Option("--data", help="File or export folder; default: trainer.warm_start.rows.")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="Folder for a copy of the model; it must not exist.")] = None,
    as_json: AsJson = False,
    sets: Sets = None,
) -> None:
    """Train on what somebody did: a teacher's or the model's own recorded rollouts, as `openforge export` writes them.

    The settings are those of the warm start, trainer.warm_start. The result is a model folder that transformers, vLLM and
    engine.model take; the same model, rows and settings find it again.

    Example: openforge sft my.toml --data runs/TEACHER/exports/sft --set trainer.warm_start.epochs=2 --out my/model
    """
    from services.dev.sft import train
    from shared.config import resolve

    named = [*(sets or []), *([f"trainer.warm_start.rows={data}"] if data else [])]
    with failing(OSError):
        raise typer.Exit(train(resolve(config, named).config, out, as_json=as_json))
