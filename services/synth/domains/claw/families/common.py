"""What families share."""

from __future__ import annotations

import random
from typing import Any

HELP = "The office is reached with the program `./office` (`./office --help` says how)."
_PRELUDE = """python3 - <<'END'
import csv, json, os, re, subprocess

def office(*words):
    done = subprocess.run(["./office", *words, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)

def listed(*words):
    first = office(*words)
    more = [office(*words, "--page", str(n)) for n in range(2, first.get("pages", 1) + 1)]
    return [item for page in (first, *more) for item in page["items"]]

"""


def python(script: str) -> str:
    """A solution in Python, with `office` and `listed` at hand."""
    return f"{_PRELUDE}{script.strip()}\nEND"


def wording(rng: random.Random, *texts: str) -> str:
    """One of several ways to say the same, and how the office is reached."""
    return f"{rng.choice(texts)}\n\n{HELP}"


def money(cents: int) -> str:
    """As in 1240.50."""
    return f"{cents // 100}.{cents % 100:02d}"


def table(header: str, rows: list[tuple[Any, ...]]) -> str:
    """A CSV file without anything that needs quotes."""
    return "\n".join([header, *(",".join(str(cell) for cell in row) for row in rows)]) + "\n"
