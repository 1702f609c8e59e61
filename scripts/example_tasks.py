"""Makes the example tasks of families anew: python -m scripts.example_tasks [NAME ...]

A folder of examples/{browser,computer}/tasks whose name is that of a family and a seed is what the family makes of the seed.
Names given are made, too: `wiki-find-7`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from services.synth.domains import FAMILIES
from services.synth.ports import Family

EXAMPLES = Path(__file__).parents[1] / "examples"
BY_NAME = {family.name: family for family in FAMILIES if family.domain in ("browser", "computer")}


def of_family(name: str) -> tuple[Family, int] | None:
    """Family and seed of a task's name; None if it is of no family."""
    family, _, seed = name.rpartition("-")
    return (BY_NAME[family], int(seed)) if family in BY_NAME and seed.isdecimal() else None


def folders() -> list[Path]:
    """The example tasks that families make."""
    found = [path for domain in ("browser", "computer") for path in sorted((EXAMPLES / domain / "tasks").iterdir())]
    return [path for path in found if of_family(path.name)]


def write(folder: Path) -> None:
    """Makes a task anew."""
    made = of_family(folder.name)
    assert made, f"{folder.name} is of no family; they are {', '.join(BY_NAME)}"
    family, seed = made
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    family.make(seed, folder)


def main() -> None:
    new = [made for name in sys.argv[1:] if (made := of_family(name))]
    for folder in {*folders(), *(EXAMPLES / family.domain / "tasks" / f"{family.name}-{seed}" for family, seed in new)}:
        write(folder)


if __name__ == "__main__":
    main()
