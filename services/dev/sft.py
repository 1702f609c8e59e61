"""`openforge sft`: supervised training alone, in this process."""

from __future__ import annotations

import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from services.dev.preflight import check_disk, check_model_folder
from services.dev.signals import INTERRUPTED
from services.trainer.run import learner_settings
from services.trainer.service import verl_learner
from services.trainer.sft.results import save_whole
from services.trainer.sft.stage import FILE, SftReport, WarmStart
from shared.config import Config
from shared.errors import ConfigError

_SAY_EVERY = 10
"""Steps between two lines where there is no terminal."""
KEPT = "sft"
"""Folder of results under `run.root`, where no cache is configured."""


def train(config: Config, out: Path | None, *, as_json: bool) -> int:
    """Trains and prints where the model is; returns the exit status.

    Args:
        config: with rows in `trainer.warm_start`.
        out: gets a copy of the result.
        as_json: the report on stdout.

    Raises:
        ConfigError: there are no rows, they do not fit the model, or `out` is there already.
    """
    warm = config.trainer.warm_start
    if not warm.rows:
        raise ConfigError("there is nothing to learn from: name a file with --data, or set trainer.warm_start.rows")
    if out is not None and out.exists():
        raise ConfigError(f"--out {out}: it is there already")
    check_disk(config)
    check_model_folder(config)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both clean up
    lesson = WarmStart(Path(config.engine.model), warm, learner_settings(config), Path(config.run.root) / KEPT)
    try:
        folder = _taught(lesson)
        if out is not None:
            save_whole(partial(_copy, folder), out)
    except KeyboardInterrupt:
        sys.stderr.write("ended by a signal; nothing half-made is left\n")
        return INTERRUPTED
    _print(folder if out is None else out, as_json)
    return 0


def _taught(lesson: WarmStart) -> Path:
    console = Console(stderr=True)
    if lesson.result().is_dir():
        console.print("this was trained before: same model, rows and settings")
        return lesson.result()
    console.print("loading the learner and the rows")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("loading")

        def progress(step: int, steps: int, text: str) -> None:
            bar.update(task, completed=step, total=steps, description=text)
            if not console.is_terminal and (step % _SAY_EVERY == 0 or step == steps):
                console.print(f"step {step} of {steps}: {text}")

        return lesson.run(verl_learner, progress)


def _copy(folder: Path, made: Path) -> None:
    shutil.copytree(folder, made)


def _print(folder: Path, as_json: bool) -> None:
    report = msgspec.json.decode((folder / FILE).read_bytes(), type=SftReport)
    if as_json:
        made = {"model": str(folder), **msgspec.to_builtins(report)}
        sys.stdout.write(msgspec.json.encode(made).decode() + "\n")
        return
    sys.stdout.write(f"{report.trained} rows, {report.tokens} trained tokens, {report.steps} steps\n")
    for reason, count in report.refused.items():
        sys.stdout.write(f"left out: {count} x {reason}\n")
    for what, values in (("loss", report.loss), ("held-back loss", report.val_loss)):
        if values:
            sys.stdout.write(f"{what}: {values[0].loss:.4f} -> {values[-1].loss:.4f} nats a token\n")
    sys.stdout.write(f"{folder}\n")
