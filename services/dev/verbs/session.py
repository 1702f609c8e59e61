"""The verbs of `openforge session`. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import Root, RunId, finish

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Record a harness that a runner of your own launches, on a stack that runs (`openforge dev CONFIG`).\n\n"
    "Example:\n\n"
    '  eval "$(openforge session create --task fix-bug --harness claude)"\n\n'
    '  claude -p "Fix the bug"\n\n'
    '  openforge session reward "$OPENFORGE_SESSION" 1.0\n\n'
    '  openforge session end "$OPENFORGE_SESSION"\n\n'
    "The variables reach programs that speak OpenAI's, Anthropic's or Gemini's API; the model name is free. Sessions of one "
    "--group are a GRPO group once --group-size of them have ended; one that is alone is scored as evaluation.",
)

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="$OPENFORGE_SESSION of `session create`.")]


@app.command("create")
def session_create(
    task: Annotated[str, typer.Option("--task", help="Name of the task.")],
    harness: Annotated[str, typer.Option("--harness", help="Name of the harness; the role rules of an adapter of it apply.")],
    group: Annotated[str, typer.Option("--group", help="Id of the group; default: a new one.")] = "",
    group_size: Annotated[int, typer.Option("--group-size", min=1, help="Rollouts in the group.")] = 1,
    rollout_id: Annotated[str, typer.Option("--rollout", help="Id of the rollout; makes a repeated create harmless.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of `export` lines.")] = False,
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Create a session and print the environment of its harness.

    Example: eval "$(openforge session create --task fix-bug --harness claude --group g1 --group-size 4)"
    """
    from services.dev.session import create
    from services.proxy.own_bodies import Wanted

    wanted = Wanted(rollout_id=rollout_id, group_id=group, group_size=group_size, task=task, harness=harness)
    finish(create(root, run_id, wanted, as_json=as_json))


@app.command("reward", context_settings={"ignore_unknown_options": True})
def session_reward(
    session_id: SessionId,
    value: Annotated[float, typer.Argument(metavar="REWARD", help="A finite number; it may be set again until the end.")],
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Set the reward of a session.

    Example: openforge session reward "$OPENFORGE_SESSION" 1.0
    """
    from services.dev.session import reward

    finish(reward(root, run_id, session_id, value))


@app.command("end")
def session_end(session_id: SessionId, run_id: RunId = "", root: Root = Path("runs")) -> None:
    """End a session: no further calls are taken, and its rollout counts in its group, with its reward or as failed.

    Example: openforge session end "$OPENFORGE_SESSION"
    """
    from services.dev.session import end

    finish(end(root, run_id, session_id))
