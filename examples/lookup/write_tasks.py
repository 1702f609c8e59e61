"""Writes the task family as Harbor-format folders: ``python -m examples.lookup.write_tasks [OUT]``.

The folders under ``tasks/`` are what this wrote; it always writes the same. Standard library only.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from examples.lookup.family import LookupTask, Split, make_tasks

TASKS = Path(__file__).parent / "tasks"
COUNTS: dict[Split, int] = {"train": 120, "heldout": 64}
SEED = 7

_TASK_TOML = """\
schema_version = "1.4"

[task]
name = "lookup/{name}"

[metadata]
hops = {hops}
max_turns = 4
output_chars = 400

[agent]
timeout_sec = 300.0

[verifier]
timeout_sec = 10.0
"""

_DOCKERFILE = """\
FROM debian:bookworm-slim
WORKDIR /app
COPY *.txt ./
"""

_SOLVE = """\
#!/bin/sh
# Follows "see FILE" to the table, finds the key's line and writes it without its dash.
set -eu
read -r first next < {source}.txt
if [ "$first" = see ]; then table=$next; else table={source}.txt; fi
line=$(grep '^- {key} ' "$table")
echo "${{line#- }}" > {target}.txt
"""

_TEST = """\
#!/bin/sh
# 1 when the target holds the key's line and nothing else.
logs=${{LOGS_DIR:-/logs}}/verifier
mkdir -p "$logs"
if [ "$(cat {target}.txt)" = "{answer}" ]; then echo 1; else echo 0; fi > "$logs/reward.txt"
"""


def write_all(out: Path) -> None:
    """Writes ``out/train/*`` and ``out/heldout/*``."""
    for split, count in COUNTS.items():
        seen: Counter[str] = Counter()
        for task in make_tasks(split, count, SEED):
            stem = f"find-{task.key}-in-{task.source}"
            seen[stem] += 1
            write_task(out / split / f"{stem}-{seen[stem]}", task)


def write_task(folder: Path, task: LookupTask) -> None:
    """Writes one task; its name is the folder's."""
    words = {"source": task.source, "key": task.key, "target": task.target, "answer": task.answer}
    _write(folder / "task.toml", _TASK_TOML.format(name=folder.name, hops=task.hops))
    _write(folder / "instruction.md", task.instruction + "\n")
    _write(folder / "environment" / "Dockerfile", _DOCKERFILE)
    for name, text in task.files.items():
        _write(folder / "environment" / name, text)
    _write(folder / "solution" / "solve.sh", _SOLVE.format(**words), mode=0o755)
    _write(folder / "tests" / "test.sh", _TEST.format(**words), mode=0o755)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write the task folders of the lookup family.")
    parser.add_argument(
        "out", nargs="?", type=Path, default=TASKS, metavar="OUT", help=f"folder to write to (default: {TASKS})"
    )
    write_all(parser.parse_args().out)


if __name__ == "__main__":
    main()
