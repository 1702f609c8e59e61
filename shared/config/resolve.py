"""Finds the value of every setting: ``--set a.b=c`` over environment ``OPENFORGE__A__B`` over the file over the default."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from shared.config.base import Section, Tree
from shared.config.model import PATHS, Config
from shared.errors import ConfigError

ENV_PREFIX = "OPENFORGE__"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration and, for every dotted name, where its value came from: `default`, a file, the environment or `--set`."""

    config: Config
    origins: dict[str, str]

    def items(self) -> Iterator[tuple[str, Any, str]]:
        """(dotted name, value, origin) of every setting, in the order of the model."""
        for name, value in _leaves(self.config):
            yield name, value, self.origins.get(name, "default")


def resolve(file: Path | None, sets: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Resolved:
    """Resolves a configuration.

    Args:
        file: the TOML file; None takes defaults, environment and `sets` only.
        sets: `a.b=value` texts; a value is read as TOML where it can be, else as a string.
        env: environment, `os.environ` by default.

    Raises:
        ConfigError: the file cannot be read, a key is unknown (with a suggestion), or a value is of a wrong type or range.
    """
    tree: Tree = {}
    origins: dict[str, str] = {}
    if file is not None:
        for name, value in _flatten(_read(file)):
            _put(tree, origins, name, value, str(file), file.resolve().parent)
    for variable, text in sorted((os.environ if env is None else env).items()):
        if variable.startswith(ENV_PREFIX):
            name = variable.removeprefix(ENV_PREFIX).lower().replace("__", ".")
            _put(tree, origins, name, _value(name, text), f"environment {variable}", Path.cwd())
    for text in sets:
        name, eq, raw = text.partition("=")
        if not eq:
            raise ConfigError(f"--set {text!r}: write it as --set section.key=value")
        _put(tree, origins, name.strip(), _value(name.strip(), raw), "--set", Path.cwd())
    try:
        return Resolved(msgspec.convert(tree, Config), origins)
    except msgspec.ValidationError as e:
        raise ConfigError(_explain(str(e), origins)) from None


def load_config(file: Path) -> Config:
    """Reads the resolved JSON that the supervisor writes for its services.

    Raises:
        ConfigError: it is missing or not such a file.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=Config)
    except OSError as e:
        raise ConfigError(f"{file}: {e.strerror}; `openforge dev` writes it") from None
    except msgspec.DecodeError as e:
        raise ConfigError(f"{file}: {e}") from None


def _read(file: Path) -> Tree:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{file}: no such file; examples/lookup/openforge.toml is one to start from, docs/synth.md has a synth.toml"
        ) from None
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{file}: {e}") from None
    except tomllib.TOMLDecodeError as e:
        raise ConfigError(f"{file}: not valid TOML: {e}") from None


def _flatten(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            _section(name)
            yield from _flatten(value, name + ".")
        else:
            yield name, value


def _put(tree: Tree, origins: dict[str, str], name: str, value: Any, origin: str, base: Path) -> None:
    *sections, key = name.split(".")
    fields = _section(".".join(sections)).__struct_fields__
    if key not in fields:
        raise ConfigError(f"{origin}: unknown setting {name!r}{_suggest(key, fields, sections)}")
    node = tree
    for s in sections:
        node = node.setdefault(s, {})
    path = (*sections, key)
    if path in PATHS:
        value = [_absolute(one, base) for one in value] if isinstance(value, list) else _absolute(value, base)
    node[key] = value
    origins[name] = origin


def _absolute(value: Any, base: Path) -> Any:
    return str((base / Path(value).expanduser()).resolve()) if isinstance(value, str) and value else value


def _section(name: str) -> type[Section]:
    kind: type[Section] = Config
    for part in filter(None, name.split(".")):
        hints = {f.name: f.type for f in msgspec.structs.fields(kind)}
        nested = {n: t for n, t in hints.items() if isinstance(t, type) and issubclass(t, Section)}
        if part not in nested:
            raise ConfigError(f"unknown section [{name}]{_suggest(part, nested, [])}")
        kind = nested[part]
    return kind


def _suggest(key: str, known: Any, sections: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    if near:
        return f"; did you mean {'.'.join([*sections, near[0]])!r}?"
    return f"; known here: {', '.join(sorted(known))}"


def _value(name: str, text: str) -> Any:
    """A text from outside as the type of its field: strings stay as they are, all else is read as TOML."""
    kind = _kind(name)
    if kind is str or (str in get_args(kind) and "_" in text):  # 0.5_2 is a number in TOML; a pair of bounds here
        return text
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _explain(error: str, origins: dict[str, str]) -> str:
    what, _, where = error.partition(" - at `$.")
    name = where.rstrip("`")
    setting = name.partition("[")[0]  # of a list: which entry
    if choices := _choices(_kind(setting)) if what.startswith("Invalid enum value") else []:
        what = f"{what.removeprefix('Invalid enum value ')} is none of {', '.join(map(repr, choices))}"
    return f"{origins[setting]}: {name}: {what}" if setting in origins else f"{name or 'configuration'}: {what}"


def _kind(setting: str) -> Any:
    *sections, key = setting.split(".")
    return next((f.type for f in msgspec.structs.fields(_section(".".join(sections))) if f.name == key), None)


def _choices(kind: Any) -> list[Any]:
    """What may stand in a setting of that type, if it is one of a few values, or a list of such."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [choice for inner in get_args(kind) for choice in _choices(inner)]


def _leaves(section: Section, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for f in section.__struct_fields__:
        value = getattr(section, f)
        if isinstance(value, Section):
            yield from _leaves(value, f"{prefix}{f}.")
        else:
            yield prefix + f, value
