"""What each user of the store may do: which families of keys, and which commands. The rest of the store is closed to it.

A family is the first part of a key's name, as the modules beside this one write it: `of:{<run>}:<family>`, or with more
behind it. Scripts run with the rights of who runs them, so that their commands count, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.keys import CLI, COLLECTOR, OPERATOR, ORCHESTRATOR, PROXY, REPLICA, SYNTH, TRAINER
from shared.store.connect import Keys

SESSIONS, REPLICAS, BLOBS, BOXES = ("sess", "secret"), ("replicas", "proxy"), ("blob",), ("box", "package", "left")
WORDS = ("words",)
"""What each service says of itself."""
ASSEMBLY = ("asm", "grp", "grps", "outbox", "epoch")

_WORDS = ("hset", "expire", "hdel")
_SCRIPTS = ("select", "ping", "evalsha", "script|load")


@dataclass(frozen=True, slots=True)
class StoreRights:
    """What a user may do.

    Attributes:
        writes: families of keys that it reads and writes.
        reads: families that it only reads.
        pools: it takes part in pools of several runs.
        commands: that it may use.
        all: it may do everything.
    """

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    pools: bool = False
    commands: tuple[str, ...] = ()
    all: bool = False


STORE_RIGHTS: Mapping[str, StoreRights] = {
    PROXY: StoreRights(
        writes=(*SESSIONS, *REPLICAS, *BLOBS, *BOXES, *WORDS),
        commands=(
            *_SCRIPTS, "get", "set", "exists", "expire", "hget", "hset", "hsetnx", "hmget", "hgetall", "hvals", "hkeys", "hdel",
            "hincrby", "hexists",
        ),
    ),
    ORCHESTRATOR: StoreRights(
        writes=WORDS,
        pools=True,
        commands=(*_SCRIPTS, "time", "exists", "expire", "hget", "hset", "hgetall", "hdel", "hincrby", "pexpire", "pttl"),
    ),
    COLLECTOR: StoreRights(
        writes=(*ASSEMBLY, *BLOBS, *WORDS),
        commands=(
            *_SCRIPTS, "get", "set", "exists", "expire", "hget", "hset", "hsetnx", "hmget", "hgetall", "hkeys", "hexists",
            "hlen", "xlen", "zcard", "zadd", "zrem", "zrangebyscore", "xadd", "xrange", "xdel", "hdel",
        ),
    ),
    TRAINER: StoreRights(
        writes=("replicas", *WORDS),
        reads=("proxy", *BLOBS),
        commands=(*_SCRIPTS, "get", "exists", "expire", "hget", "hset", "hmget", "hgetall", "hvals", "hdel"),
    ),
    SYNTH: StoreRights(writes=WORDS, commands=("select", "ping", *_WORDS)),
    # What a script may touch has to be its user's to write; no command of this one writes anything.
    CLI: StoreRights(writes=("replicas",), reads=("proxy", *WORDS), commands=(*_SCRIPTS, "exists", "hgetall", "hvals")),
    REPLICA: StoreRights(commands=("psync", "replconf", "ping")),
    OPERATOR: StoreRights(all=True),
}  # fmt: skip


def server_users(passwords: Mapping[str, str], run_id: str = "*") -> str:
    """Users of a Redis server, one a line, as its ACL file has them. It holds hashes of passwords that are random and long, so
    that nobody can guess what has such a hash.

    Args:
        passwords: by user.
        run_id: the one run whose store it is; `*` for any number of runs.
    """
    lines = ["user default reset off"]
    lines += [f"user {user} {_rule(rights, passwords[user], run_id)}" for user, rights in STORE_RIGHTS.items()]
    return "\n".join(lines) + "\n"


def _rule(rights: StoreRights, password: str, run_id: str) -> str:
    words = ["reset", "on", f"#{hashlib.sha256(password.encode()).hexdigest()}"]
    if rights.all:
        return " ".join([*words, "~*", "&*", "+@all"])
    words += [f"~{pattern}" for pattern in _patterns(rights.writes, run_id)]
    words += [f"%R~{pattern}" for pattern in _patterns(rights.reads, run_id)]
    words += ["~of:pool:{*}"] if rights.pools else []
    return " ".join([*words, *(f"+{command}" for command in rights.commands)])


def _patterns(families: Iterable[str], run_id: str) -> list[str]:
    key = Keys(run_id)
    return [pattern for family in families for pattern in (key(family), key(family, "*"))]
