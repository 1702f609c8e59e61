"""The verbs that look into the archive of a run. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import AsJson, Root, Sets, failing

AnyRun = Annotated[str, typer.Argument(metavar="RUN", help="Run id; default: the newest.")]
ThisRun = Annotated[str, typer.Argument(metavar="RUN", help="Run id; `openforge runs` lists them.")]


def groups(run_id: AnyRun = "", as_json: AsJson = False, root: Root = Path("runs")) -> None:
    """List the groups of a run: task, what became of each and why, its rewards and tokens."""
    from services.dev.listing import list_groups

    with failing():
        raise typer.Exit(list_groups(root, run_id, as_json=as_json))


def show(
    rollout_id: Annotated[
        str,
        typer.Argument(metavar="ROLLOUT", help="Rollout id, with or without the run's."),
    ],
    run_id: Annotated[str, typer.Option("--run", help="Run id; default: the newest.")] = "",
    tokens: Annotated[bool, typer.Option("--tokens", help="Each sampled token: id, mask, log-prob, text.")] = False,
    attempt: Annotated[int, typer.Option("--attempt", min=0, help="Only this attempt.")] = 0,
    as_json: AsJson = False,
    root: Root = Path("runs"),
) -> None:
    """Show a rollout: the tree of its calls, the turns, what was trained or why not, the reward and why.

    Example: openforge show s1-g03-r0 --tokens
    """
    from services.dev.show import show as show_rollout

    with failing():
        raise typer.Exit(show_rollout(root, run_id, rollout_id, attempt=attempt, tokens=tokens, as_json=as_json))


def replay(run_id: ThisRun, sets: Sets = None, as_json: AsJson = False, root: Root = Path("runs")) -> None:
    """Make a run's groups and rows again from its archive; exit 1 unless they are the same byte for byte.

    With other policies, say what would have been trained beside what was.

    Example: openforge replay 20261129-215536-34bd --set collector.timeout_policy=zero
    """
    from services.dev.replay import replay as replay_run

    with failing():
        raise typer.Exit(replay_run(root, run_id, sets or [], as_json=as_json))


def export(
    run_id: ThisRun,
    to: Annotated[str, typer.Option("--to", help="atif, sft or parquet.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default: exports/FORMAT of the run folder.")] = None,
    min_reward: Annotated[float | None, typer.Option("--min-reward", help="Smallest reward.")] = None,
    harness: Annotated[str | None, typer.Option("--harness", help="Only this harness.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task.")] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", help="train or eval.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Replace secrets and personal paths by placeholders.")] = False,
    root: Root = Path("runs"),
) -> None:
    """Write rollouts as ATIF-v1.8 trajectories, as chat rows for supervised training, or as token rows under veRL's names.

    Example: openforge export 20261129-215536-34bd --to sft --min-reward 1 --redact
    """
    from services.dev.exports.export import Wish
    from services.dev.exports.export import export as export_run
    from services.dev.exports.selection import Filter

    wanted = Filter(min_reward=min_reward, harness=harness, task=task, purpose=purpose)
    with failing():
        raise typer.Exit(export_run(root, run_id, Wish(to, out, redact, wanted)))


VERBS = (groups, show, replay, export)
