"""Users of the bus and the store, and the files that prove who one is: a folder with `<user>.nk` and `<user>.password`."""

from __future__ import annotations

from pathlib import Path

from shared.errors import ConfigError

PROXY, ORCHESTRATOR, COLLECTOR, TRAINER, SYNTH = "proxy", "orchestrator", "collector", "trainer", "synth"
CLI = "cli"
"""The command: it starts runs and rollouts, and watches them."""
TAP = "tap"
"""Looks on, and can do nothing else."""
HISTORY = "history"
"""Looks on, and back at what the bus has kept; it changes nothing."""
OPERATOR = "operator"
"""A person who mends: may do everything. No service has this key."""
REPLICA = "replica"
"""A copy of the store, which asks the first one for what is written; the bus knows no such user."""
USERS = (PROXY, ORCHESTRATOR, COLLECTOR, TRAINER, SYNTH, CLI, TAP, HISTORY, OPERATOR)

SEED, PASSWORD = "nk", "password"
"""Endings of the files: the seed of a user's nkey for the bus, its password for the store."""


def secret_of(folder: str, user: str, ending: str) -> str:
    """What a file of a folder of keys holds.

    Args:
        folder: of the keys.
        user: whose.
        ending: which of its files.

    Raises:
        ConfigError: it cannot be read, or is empty.
    """
    file = Path(folder) / f"{user}.{ending}"
    try:
        secret = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as e:
        reason = getattr(e, "strerror", None) or "is not a key"
        raise ConfigError(f"{file}: {reason}; `openforge keys make {folder}` makes the keys of all users") from None
    if not secret:
        raise ConfigError(f"{file} is empty; `openforge keys make {folder} --renew {user}` makes a new one")
    return secret
