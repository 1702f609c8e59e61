"""The verbs of `openforge eval`. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import AsJson, ConfigFile, Root, Sets, failing, finish
from services.dev.verbs.default import RUN, WithDefault

app = typer.Typer(
    name="eval",
    cls=WithDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What a model comes to on a set of tasks, and whether two evaluations differ.\n\n"
    "Example:\n\n"
    "  openforge eval my.toml --model runs/before/weights/final --tasks my/tasks --harness react --harness mini -n 4\n\n"
    "  openforge eval compare runs/A runs/B",
)


@app.command(RUN)
def run(
    config: ConfigFile,
    model: Annotated[
        str, typer.Option("--model", help="Model folder, run, or RUN@STEP for a checkpoint; default: engine.model.")
    ] = "",
    tasks: Annotated[str, typer.Option("--tasks", help="Folder of tasks, or one task; default: tasks.heldout.")] = "",
    harness: Annotated[
        list[str] | None, typer.Option("--harness", help="Program to run in; repeatable; default: trainer.harness.")
    ] = None,
    n: Annotated[int, typer.Option("-n", "--n", min=1, max=1000, help="Tries at each task.")] = 1,
    label: Annotated[str, typer.Option("--label", help="Name in the report; default: the run id.")] = "",
    as_json: AsJson = False,
    sets: Sets = None,
) -> None:
    """Evaluate a model: start a stack, run every task n times, print pass@k and pass^k with intervals.

    `openforge eval CONFIG` is short for this. Leaves eval.json and episodes.jsonl in the run folder. Exit status 1 if the
    infrastructure lost episodes: those are listed apart and count nowhere.

    Example: openforge eval my.toml --model 20261129-215536-34bd --harness react --harness mini -n 4
    """
    from services.dev.evaluation.evaluate import Asked, evaluate
    from services.dev.evaluation.model import with_model
    from shared.config import resolve

    with failing():
        resolved = with_model(resolve(config, sets or []).config, model)
    finish(evaluate(resolved, Asked(tasks, tuple(harness or ()), n, label, as_json)))


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="An eval.json, its folder, or a run id.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Likewise; the differences are B - A.")],
    as_json: AsJson = False,
    root: Root = Path("runs"),
) -> None:
    """Compare two evaluations, paired by task: difference, 95 % interval, p-value of a permutation test.

    Example: openforge eval compare runs/A runs/B
    """
    from services.dev.evaluation.comparing import compare_files

    with failing():
        raise typer.Exit(compare_files(root, a, b, as_json=as_json))
