"""A family of this domain: what its tasks are written from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from services.synth.domains.folder import Drawn, Kind, level_of, write
from services.synth.model import Domain

_WEBAPP = ("__init__", "__main__", "exchange", "pages", "shell", "wizard")
BROWSER = Kind(
    domain="browser", start="/usr/bin/python3 -B -m parts.webapp", packages="chromium python3", seen="pages", agent_s=600.0,
    parts=("__init__.py", "fields.py", "kept.py", *(f"webapp/{name}.py" for name in _WEBAPP)),
    solvers=("__init__.py", "visitor.py"),
)  # fmt: skip


@dataclass(slots=True)
class SiteFamily:
    """Tasks over one kind of site.

    Attributes:
        name: of the family.
        site: kind of site: a file of `parts.webapp`.
        draw: draws a task of a level, 1 to 3.
    """

    name: str
    site: str
    draw: Callable[[Random, int], Drawn]
    domain: Domain = "browser"

    def drawn(self, seed: int) -> Drawn:
        """The task of a seed; one seed in three is of each level."""
        drawn = self.draw(Random(f"{self.name}/{seed}"), level_of(seed))
        return replace(drawn, settings={"kind": self.site, **drawn.settings})

    def make(self, seed: int, folder: Path) -> None:
        """See `Family.make`."""
        write(folder, BROWSER, self.name, seed, level_of(seed), self.drawn(seed), [f"webapp/{self.site}.py"])
