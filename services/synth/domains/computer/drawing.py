"""A family of this domain: what its tasks are written from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from services.synth.domains.folder import Drawn, Kind, level_of, write
from services.synth.model import Domain

_DESK = ("__init__", "__main__", "arithmetic", "seen", "window")
COMPUTER = Kind(
    domain="computer", start="/usr/bin/python3 -B -m parts.desk", packages="fonts-dejavu-core python3-tk xdotool xvfb",
    parts=("__init__.py", "fields.py", "kept.py", *(f"desk/{name}.py" for name in _DESK)),
    solvers=("__init__.py", "user.py"), seen="screen", agent_s=600.0,
)  # fmt: skip


@dataclass(slots=True)
class DeskFamily:
    """Tasks on a desktop.

    Attributes:
        name: of the family.
        draw: draws a task of a level, 1 to 3.
    """

    name: str
    draw: Callable[[Random, int], Drawn]
    domain: Domain = "computer"

    def drawn(self, seed: int) -> Drawn:
        """The task of a seed; one seed in three is of each level."""
        return self.draw(Random(f"{self.name}/{seed}"), level_of(seed))

    def make(self, seed: int, folder: Path) -> None:
        """See `Family.make`."""
        drawn = self.drawn(seed)
        programs = sorted({window["program"] for window in drawn.settings["windows"]})
        write(folder, COMPUTER, self.name, seed, level_of(seed), drawn, [f"desk/{program}.py" for program in programs])


def window(program: str, title: str, box: tuple[int, int, int, int], **more: object) -> dict[str, object]:
    """A window at x, y with width and height in pixels."""
    x, y, width, height = box
    return {"program": program, "title": title, "x": x, "y": y, "width": width, "height": height, **more}
