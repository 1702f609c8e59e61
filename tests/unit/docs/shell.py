"""The commands of a block of shell, and whether each could be run: the verb, its options, the target, the file are there."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import typer
import yaml
from typer.testing import CliRunner

from services.cli import app
from tests.unit.docs.pages import REPO

Words = list[str]

COMMON = frozenset(
    {
        "cat",
        "cd",
        "claude",
        "cp",
        "docker",
        "eval",
        "export",
        "git",
        "jq",
        "kind",
        "kubectl",
        "mkdir",
        "nvidia-smi",
        "apt-get",
        "printf",
        "zcat",
    }
)
"""Programs that are not ours, and whose arguments nobody looks at here."""


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def commands(text: str) -> Iterator[Words]:
    """Every simple command of some lines of shell, also of what stands in `$(...)`."""
    text = re.sub(r"<<'(\w+)'\n.*?^\1$", "<<'there'", text, flags=re.M | re.S)
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split = True
        words: Words = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|;&"):
                yield from _simple(words)
                words = []
            else:
                words.append(word)


def _simple(words: Words) -> Iterator[Words]:
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    for word in words:
        for inner in re.findall(r"\$\((.*)\)", word):
            yield from commands(inner)
    if words and words[0] != "eval":
        yield words
    if words and words[0] == "kubectl" and "--" in words:
        yield words[words.index("--") + 1 :]


def complaint(words: Words) -> str:
    """What is wrong with a command; empty if nothing is."""
    match words:
        case ["openforge", *rest]:
            return _openforge(rest)
        case ["make", *rest]:
            return _make(rest)
        case ["python" | "python3", "-m", module, *_]:
            return "" if importlib.util.find_spec(module) else f"there is no module {module}"
        case ["docker", "compose", *rest]:
            return _compose(rest)
        case ["kubectl", "apply", "-k", folder, *_]:
            return "" if (REPO / folder / "kustomization.yaml").exists() else f"{folder} has no kustomization.yaml"
        case [program, *_] if "/" in program:
            return "" if (REPO / program).is_file() else f"there is no {program}"
        case [program, *_]:
            return "" if program in COMMON else f"{program} is none of the programs of tests/unit/docs/shell.py"
    return ""


def _openforge(words: Words) -> str:
    """Has the command's own parser read it, and stops before the verb does anything."""
    if any(word in ("--help", "--version") for word in words):
        words = [word for word in words if word not in ("--help", "--version")]
        return "" if _verb(words) is not None else f"there is no verb {' '.join(words)!r}"
    try:
        _parse(_command(), "openforge", words)
    except Exception as e:  # whatever the parser does not like
        return str(e) or type(e).__name__
    return ""


def _parse(command: Any, name: str, words: Words) -> None:
    context = command.make_context(name, words)
    if hasattr(command, "commands") and (rest := [*context._protected_args, *context.args]):
        inner_name, inner, arguments = command.resolve_command(context, rest)
        _parse(inner, inner_name, arguments)


def _verb(words: Words) -> Any:
    command: Any = _command()
    for word in words:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return None
    return command


def mentioned(text: str) -> str:
    """What is wrong with a command that is only named within a line: `openforge tasks check`, `openforge run --set`."""
    words = text.split()[1:]
    command: Any = _command()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands") and words and not words[0].startswith("-") and command.name not in ("eval", "synth"):
        return f"{text}: there is no verb {words[0]!r}"
    every = [command, *getattr(command, "commands", {}).values()]
    known = {option for one in every for p in one.params for option in p.opts} | {"--help"}
    unknown = [w.partition("=")[0] for w in words if w.startswith("--") and w.partition("=")[0] not in known]
    return f"{text}: there is no option {unknown[0]}" if unknown else ""


def targets() -> dict[str, str]:
    """Recipes of the Makefile by target."""
    text = (REPO / "Makefile").read_text(encoding="utf-8")
    return {name: recipe for name, recipe in re.findall(r"^([a-z-]+):(?!=).*\n((?:\t.*\n)*)", text, re.M)}


def _make(words: Words) -> str:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    for word in words:
        name, eq, _ = word.partition("=")
        if eq and f"$({name})" not in makefile and f"$(if $({name})" not in makefile:
            return f"the Makefile has no use for {name}"
        if not eq and word not in targets():
            return f"the Makefile has no target {word}"
    return ""


def _compose(words: Words) -> str:
    services = yaml.safe_load((REPO / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    if words[0] == "run":
        names = [word for word in words[1:] if not word.startswith("-")][:1]
    else:
        names = [word.partition("=")[0] for before, word in pairwise(words) if before == "--scale"]
    unknown = [name for name in names if name not in services]
    return f"docker-compose.yml has no service {unknown[0]}" if unknown else ""


def evidence(words: Words) -> list[str]:
    """What a test that runs a command must have in its text: verb and options, module, target's module, verb of compose."""
    match words:
        case ["openforge", *rest]:
            verb = rest if _verb(rest[:1]) is None else rest[: 2 if _verb(rest[:2]) is not None and len(rest) > 1 else 1]
            return [*verb, *(w.partition("=")[0] for w in rest if w.startswith("--"))]
        case ["python" | "python3", "-m", module, *_]:
            return [module]
        case ["make", target, *_]:
            return [*re.findall(r"-m ((?:examples|tests)\.\S+)", targets()[target])] or [target]
        case ["docker", "compose", verb, *_]:
            return [verb]
    return []


def run(words: Words) -> tuple[int, str]:
    """Runs an `openforge` command for real, in this process. Returns its exit status and what it printed."""
    result = CliRunner().invoke(app, words[1:])
    return result.exit_code, result.output
