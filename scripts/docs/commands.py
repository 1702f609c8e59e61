"""docs/cli.md from the command itself: what `--help` says of every verb."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from scripts.docs.markdown import table
from services.cli import app

_HEAD = """# Commands

Generated from `openforge --help` and that of each verb by `python -m scripts.docs`; a test compares the two.

Exit status: 0 if all is well, 1 if the verb found something wrong that it is there to find, 2 if it could not do its work (one
line on standard error says why, and what to do), 130 after Ctrl-C. `RUN` is a folder's name under `runs/`; where it may be left
out the newest is meant. `CONFIG` is an openforge.toml ([settings](configuration.md)).

Examples are read by a test as the command would read them; this page does not run them.
"""


def render() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(text for words, verb in verbs() for text in _section(words, verb))])


def verbs() -> Iterator[tuple[str, Any]]:
    """Every verb with its words, also those that only others stand behind: `openforge tasks`, `openforge tasks check`."""
    return _verbs("openforge", typer.main.get_command(app))


def _verbs(before: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, verb in group.commands.items():
        yield f"{before} {name}", verb
        if hasattr(verb, "commands"):
            yield from _verbs(f"{before} {name}", verb)


def examples(verb: Any) -> list[str]:
    """The commands that its help gives as examples."""
    return re.findall(r"^(?:Example: | {2})(\S.*)$", verb.help or "", re.M)


def _section(words: str, verb: Any) -> Iterator[str]:
    parameters = [p for p in verb.params if p.name != "help"]
    yield f"## `{words}`\n\n    {' '.join([words, *_usage(verb, parameters)])}\n"
    told = (" ".join(paragraph.split()) for paragraph in (verb.help or "").split("\n\n") if not paragraph.startswith("  "))
    yield "\n\n".join(paragraph for paragraph in told if not paragraph.startswith("Example:")) + "\n"
    if examples(verb):
        yield "Example:\n\n" + "".join(f"    {line}\n" for line in examples(verb))
    if parameters:
        rows = [(_name(p), "required" if p.required else _default(p.default), p.help or "") for p in parameters]
        yield table(("argument or option", "default", "meaning"), rows)


def _usage(verb: Any, parameters: list[Any]) -> Iterator[str]:
    if hasattr(verb, "commands") and not verb.invoke_without_command:
        yield "COMMAND"
    options = [p for p in parameters if p.param_type_name == "option"]
    yield from (_argument(p) for p in parameters if p not in options)
    yield from (f"{p.opts[0]} {_value(p)}" for p in options if p.required)
    if not all(p.required for p in options):
        yield "[OPTIONS]"


def _argument(p: Any) -> str:
    word = (p.metavar or p.name.upper()).strip("[]")
    return word if p.required else f"[{word}]"


def _name(p: Any) -> str:
    if p.param_type_name == "argument":
        return f"`{_argument(p)}`"
    words = ", ".join(f"`{o}`" for o in p.opts)
    return words if p.is_flag else f"{words} {_value(p)}"


def _value(option: Any) -> str:
    return str(option.metavar or option.name.upper())


def _default(value: Any) -> str:
    return "" if value in (None, "", False, ()) else f"`{value}`"
