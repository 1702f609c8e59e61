"""What end-to-end tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files of all that a test starts. At the end nothing may be in it."""
    tempfile.gettempdir()  # this process goes on with its own
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # short: sockets lie there
        folder = Path(name)
        folder.chmod(0o711)  # agents are other users
        monkeypatch.setenv("TMPDIR", name)
        yield folder
        assert sorted(folder.rglob("*")) == []
