"""A teacher who solves a third of his tasks, and the tasks: what a small model can learn from him, and then be better at."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.unit.proxy.teachers import Answer, FakeTeacher

COLOURS = {"blue": 77, "red": 42, "gold": 13, "pink": 58}
GUESS = 11
RIGHT_EVERY = 3
"""Of so many tries at a task, one is right."""


def make_tasks(folder: Path) -> Path:
    """A task per colour: its line is to be written into a file."""
    for colour, number in COLOURS.items():
        task = folder / f"write-{colour}"
        for sub in ("environment", "tests"):
            (task / sub).mkdir(parents=True)
        (task / "task.toml").write_text(f'schema_version = "1.4"\n[task]\nname = "test/write-{colour}"\n')
        (task / "instruction.md").write_text(f"Find {colour} in ant.txt and write it to jar.txt\n")
        (task / "environment" / "ant.txt").write_text(f"- {colour} {number}\n")
        right = f'[ "$(cat jar.txt 2>/dev/null)" = "{colour} {number}" ]'
        verdict = f'if {right}; then echo 1; else echo 0; fi > "${{LOGS_DIR:-/logs}}/verifier/reward.txt"\n'
        (task / "tests" / "test.sh").write_text(verdict)
    return folder


class CarelessTeacher(FakeTeacher):
    """Knows the number by heart in one of `RIGHT_EVERY` tries, and guesses in the others."""

    def __init__(self) -> None:
        super().__init__()
        self._tries: Counter[str] = Counter()

    def answer(self, body: dict[str, Any]) -> Answer:
        """Writes the line, and is done."""
        if any(m["role"] == "assistant" for m in body["messages"]):
            return Answer("", ["done"], [])
        asked = json.dumps(body["messages"])
        colour = next(c for c in COLOURS if f"Find {c} in" in asked)
        self._tries[colour] += 1
        number = GUESS if self._tries[colour] % RIGHT_EVERY else COLOURS[colour]
        command = json.dumps({"command": f"echo {colour} {number} > jar.txt"})
        return Answer("", [], [command[:9], command[9:]])
