"""Tasks that are made of a task to look at it: the same one with another verifier."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__")


@contextmanager
def verified_by(folder: Path, script: str, beside: Path, name: str, trees: Mapping[str, Path] | None = None) -> Iterator[Path]:
    """A task of one step whose tests/test.sh is another one, for as long as it is looked at.

    Args:
        folder: of the task.
        script: what becomes tests/test.sh; what else was in tests/ lies in tests/own/.
        beside: folder that gets it; whoever runs tasks must see it.
        name: of its folder.
        trees: further folders to lay into tests/, by name.
    """
    made = beside / name
    shutil.rmtree(made, ignore_errors=True)
    try:
        shutil.copytree(folder, made, symlinks=True, ignore=_LEFT_OUT)
        (made / "tests").rename(made / "own")
        (made / "tests").mkdir()
        (made / "own").rename(made / "tests" / "own")
        for inner, tree in (trees or {}).items():
            shutil.copytree(tree, made / "tests" / inner, symlinks=True, ignore=_LEFT_OUT)
        test = made / "tests" / "test.sh"
        test.write_text(script, encoding="utf-8")
        test.chmod(0o755)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
