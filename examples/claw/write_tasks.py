"""Makes the example tasks anew: ``python -m examples.claw.write_tasks [OUT]``.

The folders under ``tasks/`` are what this wrote; it always writes the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from services.synth.domains.claw.draft import Level, OfficeFamily
from services.synth.domains.claw.families import FAMILIES

TASKS = Path(__file__).parent / "tasks"
CHOSEN: tuple[tuple[str, Level, int], ...] = (
    ("mail-amount", "easy", 1), ("mail-amount", "hard", 2), ("mail-unsubscribe", "medium", 1), ("mail-unsubscribe", "hard", 2),
    ("mail-forward", "easy", 1), ("mail-forward", "hard", 2), ("calendar-move", "easy", 1), ("calendar-move", "medium", 2),
    ("calendar-conflict", "medium", 1), ("chat-minutes", "easy", 1), ("chat-minutes", "hard", 2), ("chat-poll", "medium", 1),
    ("contacts-update", "medium", 1), ("data-totals", "hard", 1), ("files-rename", "hard", 1), ("log-counts", "medium", 1),
    ("program-fix", "easy", 1), ("program-fix", "hard", 2), ("mail-code", "easy", 1), ("contact-phone", "easy", 1),
)  # fmt: skip
"""Family, level and seed of each."""


def write_all(out: Path) -> None:
    """Writes a folder for each task."""
    families = {family.name: family for family in FAMILIES}
    for name, level, seed in CHOSEN:
        OfficeFamily(name, families[name].draw, level).make(seed, out / f"{name}-{level}-{seed}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write the example tasks.")
    parser.add_argument(
        "out", nargs="?", type=Path, default=TASKS, metavar="OUT", help=f"folder to write to (default: {TASKS})"
    )
    write_all(parser.parse_args().out)


if __name__ == "__main__":
    main()
