"""The verbs that watch a deployment. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.dev.options import AsJson, Root, RunId, Sets, failing, finish

if TYPE_CHECKING:
    from shared.config import Config

Elsewhere = Annotated[Path | None, typer.Option("--config", help="Of a deployment elsewhere; default: the stack here.")]


def status(
    run_id: RunId = "",
    config: Elsewhere = None,
    sets: Sets = None,
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again every two seconds, until Ctrl-C.")] = False,
    root: Root = Path("runs"),
) -> None:
    """Say how a stack does: services, engines and their weights, what lags and waits, which rollouts fail; exit 1 if broken.

    A deployment elsewhere is found by run.id, bus.url and store.url of its configuration, and secrets in the environment.

    Example: openforge status --config cluster.toml --set run.id=prod-3 --watch
    """
    from services.dev.status.run import status as run_status

    finish(run_status(root, run_id, _resolved(config, sets), as_json=as_json, watch=watch))


def tap(
    pattern: Annotated[
        str, typer.Argument(metavar="[PATTERN]", help="`call`, `rollout.finished`, `evt.group.*` or a subject.")
    ] = "",
    run_id: RunId = "",
    rollout_id: Annotated[str, typer.Option("--rollout", help="Only this rollout.")] = "",
    follow: Annotated[
        str, typer.Option("--follow", metavar="ROLLOUT", help="All of this rollout, from its beginning to its end.")
    ] = "",
    since: Annotated[str, typer.Option("--since", help="First what came in the last 90s, 10m, 2h or 1d.")] = "",
    record: Annotated[
        Path | None, typer.Option("--record", help="Add the messages to this file, for `openforge playback`.")
    ] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object a line, for jq.")] = False,
    config: Elsewhere = None,
    sets: Sets = None,
    root: Root = Path("runs"),
) -> None:
    """Print the events of a stack that runs, as they come, until Ctrl-C.

    Example: openforge tap call --since 10m --json | jq .completion

    Example: openforge tap --follow s3-g07-r2
    """
    from services.dev.tap import Wish
    from services.dev.tap import tap as run_tap
    from services.dev.times import seconds

    with failing():
        since_s = seconds(since, "--since") if since else 0.0
    wish = Wish(pattern, follow or rollout_id, bool(follow), since_s, record, json_lines)
    finish(run_tap(root, run_id, _resolved(config, sets), wish))


def playback(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="As `openforge tap --record FILE` writes it.")],
    speed: Annotated[float, typer.Option("--speed", min=0, help="Times as fast as it was; 0: at once.")] = 0,
) -> None:
    """Publish recorded messages on a bus of this machine, and keep that until Ctrl-C. It says how to tap it.

    Example: openforge playback tap.jsonl --speed 10
    """
    from services.dev.playback import playback as play

    finish(play(file, speed))


def _resolved(config: Path | None, sets: list[str] | None) -> Config | None:
    from shared.config import resolve

    with failing():
        return resolve(config, sets or []).config if config else None


VERBS = (status, tap, playback)
