"""Where adapters are found: in a user's own folder, then among the built-in ones."""

from __future__ import annotations

import re
from pathlib import Path

from shared.errors import HarnessError

BUILT_IN = Path(__file__).parent / "adapters"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def adapter_files(folder: str = "") -> dict[str, Path]:
    """All adapter files by the names of the harnesses, in order. A user's own replaces a built-in one of the same name.

    Args:
        folder: a user's own adapters; empty for none.

    Raises:
        HarnessError: the folder is missing, or a file in it has a name that no harness can have.
    """
    if folder and not Path(folder).is_dir():
        raise HarnessError(f"orchestrator.harness_dir {folder}: no such folder")
    found = {}
    for place in (BUILT_IN, *([Path(folder)] if folder else [])):
        for file in place.glob("*.toml"):
            if not _NAME.fullmatch(file.stem):
                raise HarnessError(f"{file}: an adapter's file has the name of the harness: a-z, 0-9 and '-', then .toml")
            found[file.stem] = file
    return dict(sorted(found.items()))


def adapter_file(name: str, folder: str = "") -> Path:
    """The adapter file of a harness.

    Raises:
        HarnessError: there is none; the text lists those that there are.
    """
    files = adapter_files(folder)
    if name not in files:
        raise HarnessError(f"no harness {name!r}; known: {', '.join(files)}; orchestrator.harness_dir names a folder with more")
    return files[name]
