"""The verbs of `openforge deadletters`. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import Root, RunId, fail, finish

app = typer.Typer(rich_markup_mode=None)

LetterIds = Annotated[list[int] | None, typer.Argument(metavar="ID...", help="As `openforge deadletters` lists them.")]


@app.callback(invoke_without_command=True)
def deadletters(
    context: typer.Context,
    run_id: RunId = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for jq.")] = False,
    root: Root = Path("runs"),
) -> None:
    """List the messages that no service could handle, or show, replay or drop some of them, on a stack that runs.

    Example: openforge deadletters --json | jq .reason
    """
    from services.dev.deadletters import list_letters

    if context.invoked_subcommand is None:
        finish(list_letters(root, run_id, as_json=as_json))
    if run_id or as_json or root != Path("runs"):
        fail(f"options stand behind the word `{context.invoked_subcommand}`")


@app.command("show")
def deadletters_show(
    number: Annotated[int, typer.Argument(metavar="ID", help="As `openforge deadletters` lists it.")],
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Print a dead letter with its body."""
    from services.dev.deadletters import show

    finish(show(root, run_id, number))


@app.command("replay")
def deadletters_replay(
    numbers: LetterIds = None,
    every: Annotated[bool, typer.Option("--all", help="All of the run.")] = False,
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Publish dead letters again, once what kept them from being handled is mended, and take them out of the list.

    Example: openforge deadletters replay 3 7
    """
    from services.dev.deadletters import replay

    finish(replay(root, run_id, numbers or [], every=every))


@app.command("drop")
def deadletters_drop(
    numbers: Annotated[list[int], typer.Argument(metavar="ID...", help="As `openforge deadletters` lists them.")],
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Delete dead letters."""
    from services.dev.deadletters import drop

    finish(drop(root, run_id, numbers))
