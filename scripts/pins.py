"""Which packages an image of ours has, as requirements: standard library only.

python3 scripts/pins.py services    what the bus services ask for; pip finds what that needs in turn
python3 scripts/pins.py learner     all that is pinned, but tests and embedded servers
python3 scripts/pins.py learner --lacking    of these what the Python that runs this does not have, in whatever version
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
SERVICES = ("proxy", "orchestrator", "collector", "synth", "traces")
NOT_LEARNER = ("test", "dev")
NEEDED = ("jsonschema",)  # which tests ask for, and ray


def name(requirement: str) -> str:
    """The name that a requirement begins with, as indexes write it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>~!\[; ]", requirement)[0]).lower()


def pins(image: str) -> list[str]:
    """Requirements of an image, with versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    if image == "services":
        return [*project["dependencies"], *(one for extra in SERVICES for one in extras[extra])]
    left_out = {name(one) for extra in NOT_LEARNER for one in extras[extra]}.difference(NEEDED)
    lock = (ROOT / "requirements" / "cpu.lock").read_text().splitlines()
    return [line for line in lock if line and not line.startswith("#") and name(line) not in left_out]


def lacking(requirements: list[str]) -> list[str]:
    """Those of packages that are not installed here."""
    installed = {name(one.metadata["Name"]) for one in distributions()}
    return [one for one in requirements if name(one) not in installed]


if __name__ == "__main__":
    image, *flags = sys.argv[1:]
    found = pins(image)
    sys.stdout.write("\n".join(lacking(found) if flags == ["--lacking"] else found) + "\n")
