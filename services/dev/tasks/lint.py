"""What can be said against a task without running it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from shared.errors import TaskError
from shared.task import Task, load_task, unsupported
from shared.task.dockerfile import instructions
from shared.task.limits import Backend
from shared.task.sections import TaskFile

_OLD_WORDS = {"": {"version"}, "environment": {"memory", "storage", "allow_internet"}}
_SMALL = 16
"""Files of fewer bytes are equal by chance."""
_BIG = 5_000_000
_FETCHES = re.compile(r"\b(pip3? install|apt(-get)? install|npm (install|ci)|uv (pip|add|sync)|uvx|curl|wget|git clone)\b")
_LOOSE_PIP = re.compile(r"\bpip3? install\b(?P<what>[^&|;\n]*)")
_OPEN_IMAGE = re.compile(r"^(?:--platform=\S+\s+)?(?P<image>\S+)")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know about a task; an `error` is wrong with it, a `warning` may be."""

    level: Literal["error", "warning"]
    text: str


def lint(folder: Path, backend: Backend, network: Literal["none", "task"]) -> tuple[Task | None, list[Finding]]:
    """Reads a task and what speaks against it; without the task if it cannot even be loaded."""
    try:
        task = load_task(folder)
    except TaskError as e:
        return None, [Finding("error", str(e).removeprefix(f"{folder.resolve()}").lstrip(":/ "))]
    found = [Finding("warning", f"cannot run here: {reason}") for reason in unsupported(task, backend, network)]
    found += [
        *_unknown(folder),
        *_instruction(task),
        *_solution(task),
        *_tests(task),
        *_leaks(task),
        *_dockerfile(task, backend),
    ]
    return task, found


def _unknown(folder: Path) -> Iterator[Finding]:
    """Keys of task.toml that nothing reads."""
    raw = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    for place in unknown_keys(raw, TaskFile):
        yield Finding("warning", f"task.toml: nothing reads {place}")
    if raw.get("environment", {}).get("allow_internet") and "network_mode" not in raw["environment"]:
        yield Finding(
            "warning", 'allow_internet opens nothing here; if the task needs the internet, say network_mode = "public"'
        )


def unknown_keys(raw: dict[str, Any], section: type, place: str = "") -> Iterator[str]:
    """Keys of a table that its section does not have, as `a.b`. Free tables are not looked into."""
    hints = get_type_hints(section)
    for key, value in raw.items():
        here = f"{place}.{key}" if place else key
        if key not in hints:
            if key not in _OLD_WORDS.get(place, ()):
                yield here
            continue
        inner = next((t for t in (hints[key], *get_args(hints[key])) if isinstance(t, type) and _is_section(t)), None)
        for table in (value if isinstance(value, list) else [value]) if inner else []:
            if inner and isinstance(table, dict):
                yield from unknown_keys(table, inner, here)


def _is_section(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct)


def _instruction(task: Task) -> Iterator[Finding]:
    for step in task.steps:
        if not step.instruction.strip():
            yield Finding("error", f"instruction.md {step.name} is empty".replace("  ", " "))


def _solution(task: Task) -> Iterator[Finding]:
    for step in task.steps:
        if not (step.solution / "solve.sh").is_file():
            yield Finding(
                "warning", f"no {step.solution.relative_to(task.folder)}/solve.sh: nobody knows that it can be solved"
            )


def _tests(task: Task) -> Iterator[Finding]:
    texts = {path: _text(path) for step in task.steps for tests in step.tests for path in _files(tests)}
    if not any("reward" in text for text in texts.values()):
        yield Finding("warning", "nothing in tests/ writes a reward")
    for path, text in sorted(texts.items()):
        if match := _FETCHES.search(_without_comments(text)) if path.suffix in (".sh", "") else None:
            name = path.relative_to(task.folder)
            yield Finding("warning", f"{name} fetches something ({match[0]}); put it into the image: a verifier has no network")


def _leaks(task: Task) -> Iterator[Finding]:
    """What the agent must not see and finds in its working folder."""
    hidden: dict[str, Path] = {}
    for step in task.steps:
        for folder in (*step.tests, step.solution):
            hidden |= {_digest(path): path for path in _files(folder) if path.stat().st_size >= _SMALL}
    for path in _files(task.environment_dir):
        if path.stat().st_size >= _SMALL and (twin := hidden.get(_digest(path))):
            names = (str(p.relative_to(task.folder)) for p in (path, twin))
            yield Finding("error", "{} is {}: the agent can read it".format(*names))


def _dockerfile(task: Task, backend: Backend) -> Iterator[Finding]:
    if task.dockerfile is None:
        return
    stages: set[str] = set()
    lines = instructions(task.dockerfile.read_text(errors="replace"))
    for name, rest in lines:
        if name == "FROM":
            yield from _image(rest, stages)
        elif name in ("COPY", "ADD") and re.search(r"(^|[\s/\"'])(tests|solution)(/|\s|\"|$)", rest):
            yield Finding(
                "error", f"Dockerfile: {name} {rest[:60]}: tests or solution in the image, where the agent can read them"
            )
        elif name == "RUN":
            yield from _installed(rest)
    if backend == "local" and any(name == "RUN" for name, _ in lines):
        yield Finding(
            "warning", "Dockerfile: local sandboxes do not carry its RUN lines out; they show this machine's programs"
        )


def _image(rest: str, stages: set[str]) -> Iterator[Finding]:
    match = _OPEN_IMAGE.match(rest)
    image = match["image"] if match else ""
    tag = image.rpartition("/")[2].partition(":")[2]
    if image not in stages and image != "scratch" and "@" not in image and tag in ("", "latest"):
        yield Finding("warning", f"Dockerfile: FROM {image} names no version")
    if stage := re.search(r"\sas\s+(\S+)$", rest, re.IGNORECASE):
        stages.add(stage[1])


def _installed(rest: str) -> Iterator[Finding]:
    for match in _LOOSE_PIP.finditer(rest):
        words = [word for word in match["what"].split() if not word.startswith(("-", ".", "/")) and not word.endswith(".txt")]
        if loose := [word for word in words if not re.search(r"==|@|\$", word)]:
            yield Finding("warning", f"Dockerfile: pip install of {' '.join(loose)} without a version")


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()] if folder.is_dir() else []


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.stat().st_size < _BIG else ""


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
