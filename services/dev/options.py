"""Command-line options that several verbs have, and how verbs end. Imported by every start of the command: nothing heavy."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from shared.errors import ForgeError

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="An openforge.toml.")]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Override a setting; repeatable.")]
Root = Annotated[Path, typer.Option("--root", help="Folder that holds the runs.")]
RunId = Annotated[str, typer.Option("--run", help="Run id; default: the newest that runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def finish(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Runs a verb to its end and exits with its status, or with 2 and its error."""
    import asyncio

    with failing():
        code = asyncio.run(work)
    raise typer.Exit(code)


@contextmanager
def failing(*also: type[Exception]) -> Iterator[None]:
    """Ends the command with status 2 and one line where the body raises a `ForgeError`, or one of `also`."""
    expected: tuple[type[Exception], ...] = (ForgeError, *also)
    try:
        yield
    except expected as e:
        fail(str(e))


def fail(message: str) -> NoReturn:
    """Ends the command with status 2 and one line on stderr."""
    sys.stderr.write(f"openforge: {message}\n")
    raise typer.Exit(2)
