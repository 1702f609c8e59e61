"""Files that a model wrote become a task folder, if they are such as may be in one. task.toml is ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import tomli_w

from services.synth.models.kinds import File

INSTRUCTION, TOML = "instruction.md", "task.toml"
NEEDED = ("tests/test.sh", "solution/solve.sh")
_FOLDERS = ("environment", "tests", "solution")
_MOST_FILES, _MOST_BYTES, _MOST_WHOLE = 60, 256 * 1024, 2 * 1024 * 1024
_DEEPEST = 8
_AGENT_MINUTES = (1, 30)


def problem(files: Sequence[File], taken: Iterable[str], needed: Sequence[str] = NEEDED) -> str:
    """What is wrong with files that a model wants to write; empty if nothing is.

    Args:
        files: with their paths.
        taken: paths that are the environment base's.
        needed: paths that must be among them.
    """
    taken, paths = set(taken), [file.path for file in files]
    for path in paths:
        if why := _bad(path):
            return f"the path {path!r} {why}"
        if path in taken:
            return f"{path} belongs to the environment base; leave it as it is, and put what you need beside it"
    if doubled := sorted({path for path in paths if paths.count(path) > 1}):
        return f"{doubled[0]} is there twice"
    if inner := next((p for p in paths for q in paths if q != p and PurePosixPath(q).is_relative_to(p)), ""):
        return f"{inner} is a file, and other files lie in it"
    if missing := [path for path in needed if path not in paths]:
        return f"{missing[0]} is missing"
    return _too_much(files)


def _too_much(files: Sequence[File]) -> str:
    sizes = {file.path: len(file.content.encode(errors="surrogatepass")) for file in files}
    if len(files) > _MOST_FILES:
        return f"there are {len(files)} files, and {_MOST_FILES} may be"
    if large := next((path for path, size in sizes.items() if size > _MOST_BYTES), ""):
        return f"{large} has {sizes[large]} bytes, and {_MOST_BYTES} may be"
    if sum(sizes.values()) > _MOST_WHOLE:
        return f"the files have {sum(sizes.values())} bytes together, and {_MOST_WHOLE} may be"
    for file in files:
        if "\0" in file.content or any("\ud800" <= c <= "\udfff" for c in file.content):
            return f"{file.path} is no text"
        if file.path in (INSTRUCTION, *NEEDED) and not file.content.strip():
            return f"{file.path} is empty"
    return ""


def _bad(path: str) -> str:
    """Why a path cannot be written."""
    pure = PurePosixPath(path)
    if not pure.parts or not path.isprintable() or "\\" in path or str(pure) != path:
        return "is not written as paths are: folder/file"
    if pure.is_absolute() or ".." in pure.parts:
        return "leads out of the task"
    if path != INSTRUCTION and (pure.parts[0] not in _FOLDERS or len(pure.parts) < 2):
        return f"is not in {', '.join(_FOLDERS)}, where files of a task lie"
    if len(pure.parts) > _DEEPEST or any(len(part.encode()) > 120 for part in pure.parts):
        return "is too long"
    return ""


def write(folder: Path, files: Iterable[File], removed: Iterable[str] = ()) -> None:
    """Writes files into a task folder; scripts can be run.

    Args:
        folder: the task.
        files: checked by `problem`.
        removed: paths of files that go first; those that are not there are passed over.
    """
    for path in removed:
        (folder / path).unlink(missing_ok=True)
    for file in files:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(ended(file.content), encoding="utf-8")
        if file.content.startswith("#!"):
            target.chmod(0o755)


def write_toml(folder: Path, name: str, family: str, minutes: int, base: dict[str, Any]) -> None:
    """Writes task.toml.

    Args:
        folder: the task.
        name: of the task.
        family: that it is one of.
        minutes: of the agent.
        base: what the environment base has in it; its tables stay, ours are put over them.
    """
    least, most = _AGENT_MINUTES
    seconds = 60.0 * min(max(minutes, least), most)
    own: dict[str, dict[str, Any]] = {
        "task": {"name": name}, "metadata": {"family": family}, "agent": {"timeout_sec": seconds},
        "verifier": {"timeout_sec": 60.0},
    }  # fmt: skip
    tables = {key: {**base.get(key, {}), **table} for key, table in own.items()}
    (folder / TOML).write_text(tomli_w.dumps({"schema_version": "1.4", **base, **tables}), encoding="utf-8")


def listing(folder: Path, taken: Iterable[str], most: int) -> str:
    """The text files of a task, each under its path, for a prompt.

    Args:
        folder: the task.
        taken: paths that are only named.
        most: bytes in all; what does not fit is named.
    """
    taken, parts, left = set(taken), [], most
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        path = file.relative_to(folder).as_posix()
        text = "" if path in taken else _text(file)
        if text is None or len(text.encode()) > left or path in taken:
            parts.append(f"### {path}\n({file.stat().st_size} bytes, not shown)")
            continue
        left -= len(text.encode())
        parts.append(f"### {path}\n{text.rstrip()}")
    return "\n\n".join(parts)


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def ended(text: str) -> str:
    """A text as it is written: its last line ends."""
    return text if text.endswith("\n") or not text else text + "\n"
