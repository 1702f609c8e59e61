"""The verbs of `openforge keys`. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import failing

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Keys with which services are known to a NATS and a Redis of your own. `openforge run` and `dev` make keys for the "
    "servers that they start; this is for servers that stay: docker-compose.yml, k8s/base.\n\n"
    "Example:\n\n"
    "  openforge keys make keys\n\n"
    "  openforge run CONFIG --set bus.url=nats://HOST --set bus.keys=keys --set store.url=redis://HOST --set store.keys=keys",
)


@app.command("make")
def keys_make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Gets the keys; made if missing, and readable by you alone.")],
    run_id: Annotated[
        str, typer.Option("--run", help="The one run whose servers these are; default: any number of runs.")
    ] = "*",
    renew: Annotated[list[str] | None, typer.Option("--renew", metavar="USER", help="Make a new key; repeatable.")] = None,
) -> None:
    """Make the keys that are missing, and write what the servers must be told of all of them.

    Each service reads its own files alone: DIR/USER.nk and DIR/USER.password. NATS includes DIR/server/bus.conf, Redis has
    DIR/server/store.acl as its ACL file; neither holds a secret. After --renew have the servers read them again, and start the
    service again.

    Example: openforge keys make keys --renew proxy
    """
    from services.dev.keys import BUS_USERS, STORE_USERS, make_keys
    from shared.ids import check_id

    with failing(OSError):
        make_keys(folder, run_id if run_id == "*" else check_id(run_id, "run id"), renew or [])
    sys.stdout.write(f"{folder}: keys of all users; {folder / BUS_USERS} is for NATS, {folder / STORE_USERS} for Redis\n")


@app.command("rights")
def keys_rights() -> None:
    """Print who may do what, as Markdown tables: the ones of docs/security.md.

    Example: openforge keys rights
    """
    from services.dev.rights_table import tables

    sys.stdout.write(tables())
