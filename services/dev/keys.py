"""Keys of all users of the bus and the store: a folder of secrets, and what the servers are told of them.

    <folder>/<user>.nk         seed of the user's nkey, for NATS
    <folder>/<user>.password   for Redis
    <folder>/server/bus.conf   NATS users: public keys, and what each may do
    <folder>/server/store.acl  Redis users: hashes of passwords, and what each may do

What is under `server` holds no secret. Each service needs its own files alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from shared.bus import rights as bus_rights
from shared.bus.nkey import new_seed, nkey_of
from shared.errors import ConfigError
from shared.keys import PASSWORD, SEED, USERS, secret_of
from shared.store import rights as store_rights

BUS_USERS, STORE_USERS = Path("server") / "bus.conf", Path("server") / "store.acl"
EVERYBODY = tuple(dict.fromkeys([*USERS, *store_rights.STORE_RIGHTS]))


@dataclass(frozen=True, slots=True)
class ServerUsers:
    """What the servers are told.

    Attributes:
        bus: part of a NATS configuration.
        store: lines of a Redis ACL file.
    """

    bus: str
    store: str


def make_keys(folder: Path, run_id: str = "*", renew: Collection[str] = ()) -> ServerUsers:
    """Makes the keys that are missing, and what the servers are told of all.

    Args:
        folder: that gets them; made if missing.
        run_id: the one run that they are for; `*` for any number of runs.
        renew: users that get a new key in place of their own.

    Raises:
        ConfigError: no such user, a file is no key, or the folder is somebody else's.
        OSError: the folder cannot be written.
    """
    if unknown := sorted(set(renew) - set(EVERYBODY)):
        raise ConfigError(f"there is no user {unknown[0]!r}; users are {', '.join(EVERYBODY)}")
    folder.mkdir(parents=True, exist_ok=True)
    _own(folder)
    for user in USERS:
        _keep(folder / f"{user}.{SEED}", new_seed(), new=user in renew)
    for user in store_rights.STORE_RIGHTS:
        _keep(folder / f"{user}.{PASSWORD}", secrets.token_hex(32), new=user in renew)
    users = users_of(folder, run_id)
    (folder / BUS_USERS).parent.mkdir(exist_ok=True)
    for file, content in ((BUS_USERS, users.bus), (STORE_USERS, users.store)):
        (folder / file).write_text(content, encoding="ascii")  # the same file: a container may have it mounted
        (folder / file).chmod(0o644)  # the server may be another user
    return users


def _own(folder: Path) -> None:
    try:
        folder.chmod(0o700)
    except PermissionError as error:
        raise ConfigError(
            f"{folder} is of user {folder.stat().st_uid}, and this runs as user {os.geteuid()}: "
            "keys go into a folder of one's own (with docker compose, OPENFORGE_USER in .env says whose it is)"
        ) from error


def users_of(folder: Path, run_id: str = "*") -> ServerUsers:
    """What the servers are told of keys that were made.

    Raises:
        ConfigError: one is missing, or a file is no key.
    """
    seeds = {user: secret_of(str(folder), user, SEED) for user in USERS}
    public = {user: nkey_of(seed, str(folder / f"{user}.{SEED}")).public for user, seed in seeds.items()}
    passwords = {user: secret_of(str(folder), user, PASSWORD) for user in store_rights.STORE_RIGHTS}
    return ServerUsers(bus_rights.server_users(public, run_id), store_rights.server_users(passwords, run_id))


def _keep(file: Path, secret: str, *, new: bool) -> None:
    """Writes a secret that only the owner of the file can read, unless there is one."""
    if new:
        file.unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError), open(file, "x", encoding="ascii", opener=_private) as f:
        f.write(f"{secret}\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
