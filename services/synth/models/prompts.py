"""Prompts: files with `{{name}}` where something is put in. A folder of the user's takes the place of single ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from shared.errors import ConfigError

_OWN = Path(__file__).parents[1] / "prompts"
_PLACE = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")


class Prompts:
    """The prompt files of a run, each read once.

    Args:
        folder: with files that take the place of those of the same name; empty for none.

    Raises:
        ConfigError: the folder is not there, or has a file that is no prompt of ours.
    """

    def __init__(self, folder: str = "") -> None:
        self._folder = Path(folder) if folder else None
        self._read: dict[str, str] = {}
        if self._folder:
            _check(self._folder)

    def text(self, name: str) -> str:
        """A prompt as it stands in its file.

        Raises:
            ConfigError: it is not there, or cannot be read.
        """
        if name not in self._read:
            own = self._folder / f"{name}.md" if self._folder else None
            file = own if own and own.is_file() else _OWN / f"{name}.md"
            try:
                self._read[name] = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as e:
                raise ConfigError(f"the prompt {file}: {e}") from None
        return self._read[name]

    def fill(self, name: str, values: Mapping[str, str]) -> str:
        """A prompt with its places filled in.

        Args:
            name: of the file, without `.md`.
            values: by place; what stands in a value is never taken for a place.

        Raises:
            ConfigError: it has a place that nothing is known for.
        """
        text = self.text(name)
        if unknown := sorted(set(_PLACE.findall(text)) - set(values)):
            known = ", ".join(sorted(values))
            raise ConfigError(
                f"the prompt {name}.md has a place {{{{{unknown[0]}}}}} that nothing is known for; there are: {known}"
            )
        return _PLACE.sub(lambda place: values[place[1]], text)

    def digests(self, *names: str) -> dict[str, str]:
        """SHA-256 of each of these prompts, by name."""
        return {name: hashlib.sha256(self.text(name).encode()).hexdigest() for name in names}


def _check(folder: Path) -> None:
    known = {file.name for file in _OWN.glob("*.md")}
    if not folder.is_dir():
        raise ConfigError(f"synth.models.prompts: {folder} is no folder")
    if odd := sorted(file.name for file in folder.glob("*.md") if file.name not in known):
        raise ConfigError(f"synth.models.prompts: {odd[0]} is no prompt of ours; there are: {', '.join(sorted(known))}")
