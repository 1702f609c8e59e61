"""What ideas are grounded in: scenarios, documents, tasks to vary, or a repository."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from services.synth.models.folder import listing
from shared.config import ModelsConfig
from shared.errors import ConfigError
from shared.ids import slug

_BYTES_A_TOKEN = 4
_TEXTS = (".md", ".txt", ".rst", ".text")
_NOT_LOOKED_INTO = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", "dist", "build", "target"})
_MOST_FILES = 20_000
_LARGEST = 64 * 1024
_LISTED = 200


@dataclass(frozen=True, slots=True)
class Seed:
    """What an idea is grounded in.

    Attributes:
        kind: `scenario`, `document`, `task` or `repository`; `none` if there is nothing.
        name: legal as an id; tasks of one seed are of one family.
        text: for the prompt.
    """

    kind: str
    name: str
    text: str

    @property
    def source(self) -> str:
        """Name and digest, for a task's lineage."""
        return f"{self.kind} {self.name} sha256:{hashlib.sha256(self.text.encode()).hexdigest()}" if self.text else ""


NONE = Seed("none", "", "")


class Seeds:
    """The seeds that are configured.

    Args:
        settings: name them.
        seed: of what is drawn from a repository.

    Raises:
        ConfigError: there are none in what is named.
    """

    def __init__(self, settings: ModelsConfig, seed: int) -> None:
        self._most, self._seed = settings.seed_tokens * _BYTES_A_TOKEN, seed
        self._path = Path(settings.seeds) if settings.seeds else None
        kind = _kind(self._path, settings.kind) if self._path else ""
        self._repository = _files(self._path) if self._path and kind == "repository" else []
        self._fixed = list(_fixed(self._path, kind, self._most)) if self._path and kind != "repository" else []
        if self._path and not self._fixed and not self._repository:
            raise ConfigError(f"synth.models.seeds: there are no {kind} in {self._path}")

    def of(self, number: int) -> Seed:
        """The seed of a proposal, the same one each time."""
        if self._repository and self._path:
            return _drawn(self._path, self._repository, Random(f"{self._seed}:{number}"), self._most)
        return self._fixed[number % len(self._fixed)] if self._fixed else NONE


def _kind(path: Path, said: str) -> str:
    if not path.exists():
        raise ConfigError(f"synth.models.seeds: {path} is not there")
    if said != "auto":
        return said
    if path.is_file():
        return "scenarios"
    if (path / "task.toml").is_file() or any(path.glob("*/task.toml")):
        return "tasks"
    files = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
    folders = [one for one in path.iterdir() if one.is_dir()]
    return "documents" if files and not folders and all(file.suffix in _TEXTS for file in files) else "repository"


def _fixed(path: Path, kind: str, most: int) -> Iterator[Seed]:
    match kind:
        case "scenarios":
            lines = [line.strip() for line in _read(path).splitlines()]
            texts = [line for line in lines if line and not line.startswith("#")]
            yield from (Seed("scenario", f"{slug(path.stem)[:60]}-{n}", text[:most]) for n, text in enumerate(texts))
        case "documents":
            files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in _TEXTS)
            yield from (Seed("document", slug(file.stem)[:80], _read(file)[:most]) for file in files if _read(file).strip())
        case "tasks":
            folders = [path] if (path / "task.toml").is_file() else sorted(file.parent for file in path.glob("*/task.toml"))
            yield from (Seed("task", slug(folder.name)[:80], listing(folder, (), most)) for folder in folders)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"synth.models.seeds: {file}: {e}") from None


def _files(path: Path) -> list[Path]:
    """The small text files of a repository, by name."""
    found: list[Path] = []
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if name not in _NOT_LOOKED_INTO)
        found += [Path(folder, name) for name in sorted(names)]
        if len(found) > _MOST_FILES:
            raise ConfigError(f"synth.models.seeds: {path} has more than {_MOST_FILES} files; name a folder of it")
    return [file for file in found if not file.is_symlink() and 0 < file.stat().st_size <= _LARGEST and _is_text(file)]


def _is_text(file: Path) -> bool:
    try:
        file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return True


def _drawn(path: Path, files: Sequence[Path], rng: Random, most: int) -> Seed:
    """Names of files of a repository, and as many whole files as fit."""
    names = [file.relative_to(path).as_posix() for file in files]
    listed = names if len(names) <= _LISTED else sorted(rng.sample(names, _LISTED))
    parts, left = ["Files:\n" + "\n".join(listed)[: most // 4]], most - most // 4
    for file in rng.sample(list(files), len(files)):
        text = file.read_text(encoding="utf-8")
        if len(text.encode()) <= left:
            left -= len(text.encode())
            parts.append(f"### {file.relative_to(path).as_posix()}\n{text.rstrip()}")
        if left < most // 10:
            break
    return Seed("repository", slug(path.resolve().name)[:80], "\n\n".join(parts))
