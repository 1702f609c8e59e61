"""The verb of `openforge status`. It imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import AsJson, Root, RunId, Sets, failing, finish


def status(
    run_id: RunId = "",
    config: Annotated[Path | None, typer.Option("--config", help="Of a deployment elsewhere; default: the stack here.")] = None,
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
    from shared.config import resolve

    with failing():
        resolved = resolve(config, sets or []).config if config else None
    finish(run_status(root, run_id, resolved, as_json=as_json, watch=watch))
