"""Answers that lie about: what verifier or solution hold, and the agent can read before it has done anything."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

from services.synth.gates.base import Looking
from services.synth.model import Proposal, Verdict
from services.synth.ports import Room
from shared.task import load_task
from shared.task.dockerfile import instructions
from shared.task.folder import Task

SHARE = 0.6
"""Of the lines of a hidden file, in a file that the agent can read, that are too many."""
_LINE = 12
"""Characters that a line must have to be told from others."""
_BIG = 2_000_000
_TELLING = re.compile(r"answer|expected|solution|solved|truth|(^|[^a-z])gold|oracle", re.IGNORECASE)
_COMPARED = re.compile(
    r"""(?:==?|!=|-qx?F?|-F?qx?|-x)\s*(?P<quote>["'])(?P<text>[^"'$`\n]{3,200})(?P=quote)"""
    r"""|\]?\s==?\s(?P<bare>[A-Za-z0-9_.-]{4,})\s*\]"""
)
"""What a verifier compares with, as shells and Python write it."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\n]{40,}={0,2}")


class Answers(Looking):
    """Reads; runs nothing."""

    name = "answers"

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        task = load_task(folder)
        found = [*_copied(task), *_named(task), *_built(task)]
        if not found:
            return self.passed()
        text = "; ".join(f"{where} holds {what}" for where, what in found)
        detail = f"{text}: the agent can read it. Keep it in tests/ or solution/ alone, and let the agent find it out"
        return self.failed("answer-in-environment", detail, found=[{"file": where, "holds": what} for where, what in found])


def literals(text: str) -> set[str]:
    """What a verifier's text compares something with."""
    return {match["text"] or match["bare"] for match in _COMPARED.finditer(text)}


def share(hidden: str, seen: str) -> float:
    """How many of the telling lines of a hidden text another one has, however it is indented; 0 if none is telling."""
    lines = _telling(hidden)
    return len(lines & _telling(seen)) / len(lines) if lines else 0.0


def _telling(text: str) -> set[str]:
    lines = (" ".join(line.split()) for line in text.splitlines())
    return {line for line in lines if len(line) >= _LINE and not line.startswith(("#", "import ", "from ", '"""', "set -"))}


def _copied(task: Task) -> Iterator[tuple[str, str]]:
    """Files of the environment with most of a program of the solution, or of the verifier's script, in them."""
    hidden = {path: _text(path) for path in _hidden(task)}
    for path in _seen(task):
        text = _text(path)
        for own, content in hidden.items():
            if any(share(content, one) >= SHARE for one in (text, *_decoded(text))):
                yield str(path.relative_to(task.folder)), f"most of {own.relative_to(task.folder)}"


def _named(task: Task) -> Iterator[tuple[str, str]]:
    """Files that are called an answer, and have one in them that the verifier compares with."""
    wanted = _literals(task)
    for path in _seen(task):
        if _TELLING.search(path.name) and (held := sorted(one for one in wanted if one in _text(path))):
            yield str(path.relative_to(task.folder)), f"{held[0]!r}, which the verifier compares with"


def _built(task: Task) -> Iterator[tuple[str, str]]:
    """Lines of the Dockerfile that write what the verifier compares with into the image."""
    if not task.dockerfile:
        return
    wanted = _literals(task)
    for name, rest in instructions(_text(task.dockerfile)):
        held = sorted(one for one in wanted if one in rest) if name in ("RUN", "ENV", "ARG", "LABEL") else []
        if held:
            yield f"environment/Dockerfile: {name} {rest[:40]}", f"{held[0]!r}, which the verifier compares with"


def _literals(task: Task) -> set[str]:
    texts = [_text(path) for step in task.steps for tests in step.tests for path in _files(tests)]
    return {literal for text in texts for literal in literals(text)}


def _decoded(text: str) -> Iterator[str]:
    for match in _BASE64.finditer(text):
        try:
            yield base64.b64decode(match[0].replace("\n", ""), validate=True).decode()
        except ValueError:
            continue


def _hidden(task: Task) -> list[Path]:
    """The solution's programs and the verifier's script. Its data may be those of the environment with little changed, and its
    other programs share code with it."""
    solutions = [path for step in task.steps for path in _files(step.solution) if path.suffix in ("", ".sh", ".py")]
    tests = [path for step in task.steps for folder in step.tests for path in _files(folder) if path.suffix == ".sh"]
    return solutions + tests


def _seen(task: Task) -> list[Path]:
    return [path for path in _files(task.environment_dir) if path != task.dockerfile]


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()] if folder.is_dir() else []


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.stat().st_size < _BIG else ""
