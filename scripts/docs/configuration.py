"""docs/configuration.md from `shared.config`: a table a section, with the types, bounds, defaults and texts of its fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect as types

from scripts.docs.markdown import meanings, summary, table
from shared.config.base import Section
from shared.config.model import PATHS, Config

_HEAD = """# Settings

Generated from `shared/config` by `python -m scripts.docs`; a test compares the two.

A setting is looked for in this order: `--set trainer.steps=5` on the command line, the environment
(`OPENFORGE__TRAINER__STEPS=5`), the file (`[trainer]`, `steps = 5`), the default below. `openforge check FILE` prints every
setting with its value and where it came from, and whether a run could start. A name that does not exist is refused, with the
nearest that does. Paths are relative to the folder of the file that names them, or to the working folder where `--set` or the
environment does. Secrets never stand in the file: settings that end in `_env` name an environment variable, `keys` a folder
([security](security.md)).
"""


def render() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_sections(Config(), ())])


def _sections(section: Section, path: tuple[str, ...]) -> Iterator[str]:
    own = [(f.name, getattr(section, f.name), f.type) for f in msgspec.structs.fields(section)]
    inner = [(name, value) for name, value, _ in own if isinstance(value, Section)]
    if path:
        yield f"{'#' * (1 + len(path))} `[{'.'.join(path)}]`\n\n{summary(type(section))}\n"
        told = meanings(type(section))
        rows = [_row((*path, name), value, kind, told.get(name, "")) for name, value, kind in own if (name, value) not in inner]
        if rows:
            yield table(("setting", "type", "default", "meaning"), rows)
    for name, value in inner:
        yield from _sections(value, (*path, name))


def _row(path: tuple[str, ...], value: Any, kind: Any, meaning: str) -> tuple[str, str, str, str]:
    kind_text = _path(value) if path in PATHS else _type(types.type_info(kind))
    return f"`{'.'.join(path)}`", kind_text, _default(value), meaning


def _path(value: Any) -> str:
    return "list of paths" if isinstance(value, list) else "path"


def _default(value: Any) -> str:
    if value is None:
        return "none"
    return "empty" if value in ("", [], {}) else f"`{msgspec.json.encode(value).decode()}`"


def _type(kind: types.Type) -> str:
    match kind:
        case types.BoolType():
            return "true or false"
        case types.IntType() | types.FloatType():
            return _bounded("whole number" if isinstance(kind, types.IntType) else "number", kind)
        case types.StrType():
            return "text"
        case types.LiteralType():
            return ", ".join(f"`{value}`" for value in kind.values)
        case types.ListType() | types.VarTupleType():
            return f"list of {_type(kind.item_type)}"
        case types.TupleType():
            return " and ".join(_type(item) for item in kind.item_types)
        case types.DictType():
            return "table"
        case types.NoneType():
            return "none"
        case types.UnionType():
            return " or ".join(_type(one) for one in kind.types)
    raise TypeError(f"the page of settings has no words for {kind}")


def _bounded(word: str, kind: types.IntType | types.FloatType) -> str:
    bounds = [(">", kind.gt), (">=", kind.ge), ("<", kind.lt), ("<=", kind.le)]
    return ", ".join([word, *(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)])
