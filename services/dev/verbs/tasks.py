"""The verbs of `openforge tasks`. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import AsJson, Sets, failing, finish

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Task folders in Harbor's format: bring sets of others in, and find out what is wrong with a task.\n\n"
    "Example:\n\n"
    "  openforge tasks import their-set --to tasks/theirs\n\n"
    "  openforge tasks check tasks/theirs\n\n"
    "docs/tasks.md says what a task folder may hold and which formats are read.",
)


@app.command("check")
def tasks_check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A task folder, or a folder of them.")],
    lint: Annotated[bool, typer.Option("--lint", help="Run nothing.")] = False,
    runs: Annotated[int, typer.Option("--runs", min=1, max=100, help="Of each agent; rewards that differ are wrong.")] = 1,
    backend: Annotated[
        str, typer.Option("--backend", help="Where: local, or docker, in containers of the task's own image.")
    ] = "local",
    gates: Annotated[
        bool, typer.Option("--gates", help="Ask the gates of task synthesis, too: flaky verifiers, cheating, copies.")
    ] = False,
    heldout: Annotated[
        list[Path] | None, typer.Option("--heldout", help="With --gates: folder of tasks that none may be a copy of.")
    ] = None,
    keep: Annotated[Path | None, typer.Option("--keep", help="Folder for the logs of the runs; default: removed.")] = None,
    as_json: AsJson = False,
    sets: Sets = None,
) -> None:
    """Say what is wrong with tasks: read them, then run an agent that does nothing (it must get 0) and the task's own solution
    (it must get 1), in sandboxes of this machine, without a model. Exit status 1 if anything is wrong.

    With --gates: whatever a task that is made here has to pass and needs no model to find out; a table says what was found by
    which gate, docs/synth-gates.md what each looks at.

    Example: openforge tasks check my-tasks --backend docker --runs 3 --set orchestrator.concurrency=4
    """
    from services.dev.tasks.check import Wish, check
    from services.dev.tasks.gated import gated
    from shared.config import resolve

    with failing():
        settings = resolve(None, [f"orchestrator.backend={backend}", *(sets or [])]).config.orchestrator
    wish = Wish(folder, settings, runs=runs, lint_only=lint, as_json=as_json, keep=keep)
    finish(gated(wish, heldout or []) if gates else check(wish))


@app.command("import")
def tasks_import(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="File or folder of a set, such as a clone of its repository.")
    ],
    to: Annotated[Path, typer.Option("--to", help="Folder to write task folders into.")],
    form: Annotated[str, typer.Option("--from", help="Its format; default: what it looks like.")] = "",
    origin: Annotated[str, typer.Option("--origin", help="Where it comes from; default: what git says.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Its licence; default: what its licence file says.")] = "",
) -> None:
    """Make task folders of a set in another format: harbor, qwenclawbench, claw-eval, webvoyager, mind2web, mcp-atlas, osworld.

    Each folder keeps origin and licence in its file ORIGIN. What cannot be used is named, and the rest imported; exit status 1
    then. Setup scripts of a set are run in a sandbox without a network.

    Example: openforge tasks import clawbench/tasks --to tasks/claw
    """
    from services.dev.tasks.importing import import_tasks

    with failing(OSError):
        raise typer.Exit(import_tasks(source, to, form, origin, licence))
