"""The verbs of `openforge runs`. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import AsJson, Root, failing

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def runs(context: typer.Context, as_json: AsJson = False, root: Root = Path("runs")) -> None:
    """List the runs, the newest first: state, steps, groups (completed+discarded), held-out success, size of the archive.

    `openforge runs prune` removes old ones.
    """
    if context.invoked_subcommand is None:
        from services.dev.listing import list_runs

        with failing():
            raise typer.Exit(list_runs(root, as_json=as_json))


@app.command()
def prune(
    older_than: Annotated[str, typer.Option("--older-than", help="Runs that wrote nothing for 12h, 30d, ... may go.")] = "",
    keep: Annotated[int | None, typer.Option("--keep", min=0, help="The newest N stay in any case.")] = None,
    max_gb: Annotated[float | None, typer.Option("--max-gb", min=0, help="The oldest may go until N GB are left.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it nothing is.")] = False,
    as_json: AsJson = False,
    root: Root = Path("runs"),
) -> None:
    """Say which runs may go and what that frees; with --yes, remove them: archive, weights and checkpoints, for good.

    A run that lives is never removed, nor one that wrote anything within the last 15 minutes. --keep alone lets all go but the
    newest N.

    Example: openforge runs prune --older-than 30d --keep 10 --yes
    """
    from services.dev.pruning.choose import Rule
    from services.dev.pruning.prune import prune as prune_runs
    from services.dev.times import seconds

    with failing():
        older_s = seconds(older_than, "--older-than") if older_than else None
        rule = Rule(older_s, keep, None if max_gb is None else round(max_gb * 1e9))
        raise typer.Exit(prune_runs(root, rule, remove_them=yes, as_json=as_json))
