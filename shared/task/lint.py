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
from shared.task.dockerfile import instructions
from shared.task.folder import Task, load_task
from shared.task.limits import Backend, unsupported
from shared.task.pinning import loose
from shared.task.sections import TaskFile

_OLD_WORDS = {"": {"version"}, "environment": {"memory", "storage", "allow_internet"}}
_SMALL = 16
"""Files of fewer bytes are equal by chance."""
_BIG = 5_000_000
_FETCHES = re.compile(r"\b(pip3? install|apt(-get)? install|npm (install|ci)|uv (pip|add|sync)|uvx|curl|wget|git clone)\b")
_FILE = re.compile(r"(?<![\w./$}-])(?:\./|/app/)?(?P<path>[A-Za-z0-9_][\w-]*(?:[/.][\w-]+)*\.[a-z][a-z0-9]{0,4})\b")
"""A relative path in a script, or one in the working folder."""
_SECRET = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}\b|\bxox[baprs]-[0-9A-Za-z-]{20,}"
    r"|\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}|\bAIza[0-9A-Za-z_-]{35}\b|\bhf_[A-Za-z0-9]{34}\b"
)
_VARIED = 12
"""A key has more different characters than what only stands for one, such as sk-xxxx."""
Reason = Literal[
    "cannot-load", "cannot-run-here", "unknown-field", "empty-instruction", "no-solution", "no-reward-written",
    "fetches-in-verifier", "tests-in-environment", "tests-in-image", "unpinned", "unpinned-apt", "not-carried-out",
    "output-path-unsaid", "secret", "internet-unsaid",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know about a task.

    Attributes:
        level: an `error` is wrong with it, a `warning` may be.
        text: for a person.
        reason: in a word that can be counted.
    """

    level: Literal["error", "warning"]
    text: str
    reason: Reason


def _error(reason: Reason, text: str) -> Finding:
    return Finding("error", text, reason)


def _warning(reason: Reason, text: str) -> Finding:
    return Finding("warning", text, reason)


def lint(folder: Path, backend: Backend, network: Literal["none", "task"]) -> tuple[Task | None, list[Finding]]:
    """Reads a task and what speaks against it; without the task if it cannot even be loaded."""
    try:
        task = load_task(folder)
    except TaskError as e:
        return None, [_error("cannot-load", str(e).removeprefix(f"{folder.resolve()}").lstrip(":/ "))]
    found = [_warning("cannot-run-here", f"cannot run here: {why}") for why in unsupported(task, backend, network)]
    found += [
        *_unknown(folder),
        *_instruction(task),
        *_solution(task),
        *_tests(task),
        *_output(task),
        *_secrets(task),
        *_leaks(task),
        *_dockerfile(task, backend),
    ]
    return task, found


def _unknown(folder: Path) -> Iterator[Finding]:
    """Keys of task.toml that nothing reads."""
    raw = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    for place in unknown_keys(raw, TaskFile):
        yield _warning("unknown-field", f"task.toml: nothing reads {place}")
    if raw.get("environment", {}).get("allow_internet") and "network_mode" not in raw["environment"]:
        yield _warning(
            "internet-unsaid", 'allow_internet opens nothing here; if the task needs the internet, say network_mode = "public"'
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
            yield _error("empty-instruction", f"instruction.md {step.name} is empty".replace("  ", " "))


def _solution(task: Task) -> Iterator[Finding]:
    for step in task.steps:
        if not (step.solution / "solve.sh").is_file():
            yield _warning(
                "no-solution", f"no {step.solution.relative_to(task.folder)}/solve.sh: nobody knows that it can be solved"
            )


def _tests(task: Task) -> Iterator[Finding]:
    texts = {path: _text(path) for step in task.steps for tests in step.tests for path in _files(tests)}
    if not any("reward" in text for text in texts.values()):
        yield _warning("no-reward-written", "nothing in tests/ writes a reward")
    for path, text in sorted(texts.items()):
        if match := _FETCHES.search(_without_comments(text)) if path.suffix in (".sh", "") else None:
            name = path.relative_to(task.folder)
            text = f"{name} fetches something ({match[0]}); put it into the image: a verifier has no network"
            yield _warning("fetches-in-verifier", text)


def _output(task: Task) -> Iterator[Finding]:
    """A file that the verifier reads, of which neither the instruction nor the environment says anything."""
    given = _files(task.environment_dir) + [path for step in task.steps for tests in step.tests for path in _files(tests)]
    there, said = {path.name for path in given}, "\n".join(map(_text, _files(task.environment_dir)))
    for step in task.steps:
        scripts = [path for tests in step.tests if (path := tests / "test.sh").is_file()]
        read = {Path(match["path"]).name for script in scripts for match in _FILE.finditer(_without_comments(_text(script)))}
        read -= there | {"reward.txt", "reward.json"}
        if read and not any(name in step.instruction or name in said for name in read):
            named = ", ".join(sorted(read))
            yield _warning("output-path-unsaid", f"the verifier looks at {named}: let instruction.md name what is to be made")


def _secrets(task: Task) -> Iterator[Finding]:
    for path in _files(task.folder):
        if match := next((one for one in _SECRET.finditer(_text(path)) if len(set(one[0])) >= _VARIED), None):
            text = f"{path.relative_to(task.folder)} holds what looks like a key ({match[0][:12]}...): take it out"
            yield _error("secret", text)


def _leaks(task: Task) -> Iterator[Finding]:
    """What the agent must not see and finds in its working folder."""
    hidden: dict[str, Path] = {}
    for step in task.steps:
        for folder in (*step.tests, step.solution):
            hidden |= {_digest(path): path for path in _files(folder) if path.stat().st_size >= _SMALL}
    for path in _files(task.environment_dir):
        if path.stat().st_size >= _SMALL and (twin := hidden.get(_digest(path))):
            names = (str(p.relative_to(task.folder)) for p in (path, twin))
            yield _error("tests-in-environment", "{} is {}: the agent can read it".format(*names))


def _dockerfile(task: Task, backend: Backend) -> Iterator[Finding]:
    if task.dockerfile is None:
        if (image := task.environment.docker_image) and loose("FROM", image):
            yield _warning("unpinned", f"task.toml: docker_image {image} names no version")
        return
    stages: set[str] = set()
    lines = instructions(task.dockerfile.read_text(errors="replace"))
    for name, rest in lines:
        for what, why in loose(name, rest):
            if what not in stages:
                yield _warning("unpinned-apt" if why.startswith("apt") else "unpinned", f"Dockerfile: {why}".format(what))
        if name == "FROM" and (stage := re.search(r"\sas\s+(\S+)$", rest, re.IGNORECASE)):
            stages.add(stage[1])
        if name in ("COPY", "ADD") and re.search(r"(^|[\s/\"'])(tests|solution)(/|\s|\"|$)", rest):
            text = f"Dockerfile: {name} {rest[:60]}: tests or solution in the image, where the agent can read them"
            yield _error("tests-in-image", text)
    if backend == "local" and any(name == "RUN" for name, _ in lines):
        text = "Dockerfile: local sandboxes do not carry its RUN lines out; they show this machine's programs"
        yield _warning("not-carried-out", text)


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()] if folder.is_dir() else []


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.stat().st_size < _BIG else ""


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
