"""Writes task folders whose program keeps tables (see `parts.kept`), and whose verifier compares them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_TOML = """\
schema_version = "1.4"

[task]
name = "{domain}/{name}"

[metadata]
family = "{family}"
level = {level}
start = "{start}"
max_turns = {max_turns}

[metadata.initial]
there = ["data.json", "parts"]
absent = ["state.json", "journal.jsonl"]

[agent]
timeout_sec = {agent_s:.1f}

[verifier]
timeout_sec = 30.0
"""
_DOCKERFILE = """\
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends {packages}
WORKDIR /app
COPY parts ./parts
COPY data.json ./
"""
_TEST = """\
#!/bin/sh
# The share of the wanted changes among all that were made; compare.py says how.
logs=${LOGS_DIR:-/logs}/verifier
mkdir -p "$logs"
/usr/bin/python3 -I "$(dirname "$0")/compare.py" . > "$logs/reward.txt"
"""
_SOLVE = """\
#!/bin/sh
# Does the task by what is on the {seen}, as a user would: see solvers/.
PYTHONPATH=$(dirname "$0") exec /usr/bin/python3 -B -m solvers.{solver}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a family drew for a task.

    Attributes:
        instruction: what the agent is asked; a line that goes on in the next is one with it.
        settings, tables: of data.json.
        changes: those that the task asks for; each `table`, `id`, and `set`: fields with their values.
        known: what the solver is told: what the instruction says, and nothing that has to be found.
        fold: capitals count for nothing.
        max_turns: of the agent.
        solvers: further files of `solvers` that the solver needs.
    """

    instruction: str
    settings: Mapping[str, Any]
    tables: Mapping[str, list[dict[str, Any]]]
    changes: list[dict[str, Any]]
    known: Mapping[str, Any] = field(default_factory=dict)
    fold: bool = False
    max_turns: int = 20
    solvers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What all tasks of a domain have.

    Attributes:
        start: shell command of the site or the desktop.
        packages: of Debian, in the image.
        parts, solvers: files of those names that every task gets.
        seen: what a user looks at.
        agent_s: wall-clock seconds of the agent.
    """

    domain: str
    start: str
    packages: str
    parts: tuple[str, ...]
    solvers: tuple[str, ...]
    seen: str
    agent_s: float


def level_of(seed: int) -> int:
    """How hard the task of a seed is: 1, 2 or 3."""
    return seed % 3 + 1


def write(folder: Path, kind: Kind, family: str, seed: int, level: int, drawn: Drawn, parts: Iterable[str]) -> None:
    """Writes a task folder.

    Args:
        folder: a new one.
        kind: of its domain.
        family, seed, level: where the task comes from; family and seed make its name.
        drawn: the task.
        parts: further files of `parts` that it needs.
    """
    solver = family.replace("-", "_")
    words = {"family": family, "level": level, "domain": kind.domain, "start": kind.start, "name": f"{family}-{seed}"}
    files = {
        "task.toml": _TOML.format(max_turns=drawn.max_turns, agent_s=kind.agent_s, **words),
        "instruction.md": re.sub(r"(?<!\n)\n(?!\n)", " ", drawn.instruction.strip()) + "\n",
        "environment/Dockerfile": _DOCKERFILE.format(packages=kind.packages),
        "environment/data.json": _json({"settings": drawn.settings, "tables": drawn.tables}),
        "tests/test.sh": _TEST,
        "tests/compare.py": (_HERE / "compare.py").read_text(encoding="utf-8"),
        "tests/expected.json": _json({"start": drawn.tables, "changes": drawn.changes, "fold": drawn.fold}),
        "solution/solve.sh": _SOLVE.format(seen=kind.seen, solver=solver),
        "solution/known.json": _json(drawn.known),
    }
    for name in (*kind.parts, *parts):
        files[f"environment/parts/{name}"] = (_HERE / "parts" / name).read_text(encoding="utf-8")
    for name in (*kind.solvers, f"{solver}.py", *drawn.solvers):
        files[f"solution/solvers/{name}"] = (_HERE / "solvers" / name).read_text(encoding="utf-8")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if name.endswith(".sh") else 0o644)


def _json(content: object) -> str:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
