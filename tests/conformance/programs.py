"""What the script has to know of each program: the names and arguments of its tools, and what it does not have."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

FILE = Path(__file__).parent / "programs.toml"


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool of a program: its name and arguments, with placeholders such as `{command}` in texts."""

    name: str
    arguments: dict[str, Any]

    def filled(self, **values: str) -> dict[str, Any]:
        """The arguments with the placeholders replaced."""
        filled: dict[str, Any] = _fill(self.arguments, values)
        return filled


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program.

    Attributes:
        shell: runs `{command}`.
        several: runs `{command}`, several in one reply, where only the first `shell` of a reply is run.
        write: writes `{text}` into the file `{path}`.
        image: shows the picture `{path}` to the model; None for a program that shows some by itself.
        subagent: has a subagent do `{prompt}`.
        report: ends the subagent's work with `{text}`; None when an answer without a tool call does.
        wait: waits for the subagent `{agent}`, where the program would end without it.
        agent: regular expression that finds its name in the result of `subagent`.
        finish: command that ends its work; empty when an answer without a tool call does.
        done: ends the work of a program whose actions stand in its answers; others have none.
        rewrites: it tells the model of earlier steps in words of its own, so that no prompt grows from another.
        judge: regular expression in the system turn of a call that asks for a verdict.
        summary: regular expression in the last user turn or the system turn of a call that asks for a summary.
        lacks: scenes that need something that it does not have, with the reason.
        ends: scenes in which it gives the task up by its own rules, with the reason; all else is checked there as well.
        rows: rows of a rollout where they are other than a scene says.
        metadata: what its tasks set for its adapter.
    """

    shell: Tool
    several: Tool | None = None
    write: Tool | None = None
    image: Tool | None = None
    subagent: Tool | None = None
    report: Tool | None = None
    wait: Tool | None = None
    agent: str = ""
    finish: str = ""
    done: Tool | None = None
    rewrites: bool = False
    judge: str = ""
    summary: str = ""
    lacks: dict[str, str] = {}
    ends: dict[str, str] = {}
    rows: dict[str, int] = {}
    metadata: dict[str, int | str] = {}


def load_programs(file: Path = FILE) -> dict[str, Program]:
    """All programs by the names of their adapters.

    Raises:
        msgspec.ValidationError: the file says something unknown.
    """
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), dict[str, Program])


def _fill(value: Any, values: dict[str, str]) -> Any:
    match value:
        case str():
            for name, text in values.items():
                value = value.replace(f"{{{name}}}", text)
            return value
        case dict():
            return {key: _fill(inner, values) for key, inner in value.items()}
        case list():
            return [_fill(inner, values) for inner in value]
    return value
