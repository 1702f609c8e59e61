"""`openforge harness`: what is said of programs, and that half an installation counts for none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from services.dev.harness import list_harnesses
from services.dev.install import install
from services.orchestrator.harnesses.adapter import Pip, load
from services.orchestrator.harnesses.installed import is_installed, place
from services.orchestrator.harnesses.library import adapter_file
from shared.errors import HarnessError

BROKEN = """
about = "a program that no index has"
api = "openai.chat"
argv = ["mine", "{instruction}"]
[install]
kind = "pip"
package = "no-such-program"
version = "1.0"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENFORGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "harness"


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text)
    return file


def listed(folder: Path) -> dict[str, str]:
    """The last column of the table by the first."""
    output = io.StringIO()
    list_harnesses(str(folder), Console(file=output, width=250))
    rows = [line.split("│") for line in output.getvalue().splitlines() if line.startswith("│")]
    return {row[1].strip(): row[-2].strip() for row in rows}


def test_the_list_says_what_can_be_started(tmp_path: Path, cache: Path) -> None:
    (cache / "codex-0.171.0").mkdir(parents=True)
    (cache / "codex-0.171.0" / "installed").touch()
    (cache / "pi-0.73.1").mkdir()
    write(tmp_path, BROKEN.partition("[install]")[0])
    states = listed(tmp_path)
    assert (states["codex"], states["pi"], states["react"]) == ("installed", "not installed", "installed")
    assert states["mine"] == "installed by its user"
    assert states["zeroclaw"].startswith("untested: ")


def test_what_cannot_be_installed_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(HarnessError, match=r"zeroclaw has no \[install\]"):
        install(adapter_file("zeroclaw"), load(adapter_file("zeroclaw")), said.append)
    install(adapter_file("react"), load(adapter_file("react")), said.append)
    assert said == ["react needs no installation"]
    too_new = write(tmp_path, BROKEN + 'python = "3.99"\n')
    with pytest.raises(HarnessError, match=r"needs Python 3\.99 or newer"):
        install(too_new, load(too_new), said.append)


@pytest.mark.real
def test_half_an_installation_is_made_anew(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    file = write(tmp_path, BROKEN + 'lock = "mine.lock"\n')
    wanted = load(file).install
    assert isinstance(wanted, Pip)
    folder, lock, said = place("mine", wanted), tmp_path / "mine.lock", []  # type: ignore[var-annotated]
    lock.write_text("no-such-program==1.0\n")
    with pytest.raises(HarnessError, match="no-such-program"):
        install(file, load(file), said.append)
    assert folder.is_dir()
    assert not is_installed(folder)
    (folder / "left-behind").touch()
    lock.write_text("# nothing\n")
    install(file, load(file), said.append)
    assert is_installed(folder)
    assert not (folder / "left-behind").exists()
    install(file, load(file), said.append)
    assert said[-1] == "mine-1.0 is installed"
