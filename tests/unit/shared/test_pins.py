"""What pyproject.toml asks for is what the lock files install."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPO = Path(__file__).parents[3]


def name_of(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def test_every_pin_is_in_the_lock() -> None:
    lines = [line for lock in (REPO / "requirements").glob("*.lock") for line in lock.read_text().splitlines()]
    locked = {name_of(n): v for n, _, v in (line.partition("==") for line in lines) if v}
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(pin for extra in project["optional-dependencies"].values() for pin in extra)]
    missing = [pin for pin in asked if locked.get(name_of(pin.partition("==")[0]), "").split("+")[0] != pin.partition("==")[2]]
    assert not missing
