"""Who may do what at the bus and the store, as Markdown: made from what the servers are told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.bus.rights import RIGHTS, Rights
from shared.events import EVENTS, Message, tag_of
from shared.store.rights import STORE_RIGHTS, StoreRights

_EVERYTHING = "everything"
_ALL_EVENTS, _ALL = "all events", "whatever is kept"


def tables() -> str:
    """Both tables."""
    bus = [(user, *_bus(rights)) for user, rights in RIGHTS.items()]
    store = [(user, *_store(rights)) for user, rights in STORE_RIGHTS.items()]
    return "\n".join(
        [
            *_table(("user", "publishes", "takes, as", "reads back", "besides"), bus),
            "",
            *_table(("user", "reads and writes keys", "only reads", "commands"), store),
            "",
        ]
    )


def _bus(rights: Rights) -> tuple[str, str, str, str]:
    if rights.all:
        return _EVERYTHING, _EVERYTHING, _EVERYTHING, _EVERYTHING
    taken = "; ".join(f"{_tags(types)} as `{durable}`" for durable, types in rights.consumes.items())
    besides = {
        "listens to all": rights.taps or rights.keeps,
        "sees how consumers do": rights.looks,
        "makes streams": rights.makes,
        "trims streams, keeps strays": rights.keeps,
    }
    read = _ALL if rights.remembers else _tags(rights.reads)
    return _tags(rights.publishes), taken, read, ", ".join(what for what, may in besides.items() if may)


def _store(rights: StoreRights) -> tuple[str, str, str]:
    if rights.all:
        return _EVERYTHING, _EVERYTHING, _EVERYTHING
    written = [*rights.writes, *(["of:pool:"] if rights.pools else [])]
    return _words(written), _words(rights.reads), _words(rights.commands)


def _tags(types: Sequence[type[Message]]) -> str:
    return _ALL_EVENTS if tuple(types) == EVENTS else _words(map(tag_of, types))


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words).replace("script|load", "script load")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
