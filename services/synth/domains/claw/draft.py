"""What a family says of a task, and the folder that is made of it."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from services.synth.model import Domain

Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")
OFFICE = Path(__file__).with_name("office")
_PACKAGE = "services.synth.domains.claw.office"
BASE_IMAGE = "python:3.11-slim"

_TASK_TOML = """\
schema_version = "1.4"

[task]
name = "claw/{name}"

[metadata]
domain = "claw"
family = "{family}"
level = "{level}"
seed = {seed}
serve = "exec python3 office.d/serve.py"
max_turns = {max_turns}
output_chars = 4000

[metadata.initial]
there = {there}

[agent]
timeout_sec = 600.0

[verifier]
timeout_sec = 60.0
"""
_DOCKERFILE = f"""\
FROM {BASE_IMAGE}
WORKDIR /app
COPY . ./
"""
_TEST = """\
#!/bin/sh
# Says what holds and what does not; the reward is the share of what was to be done, 0 where something else was changed.
exec python3 -BEs "${TESTS_DIR:-/tests}/check.py"
"""
_CHECK = """\
from expect import Expect

expect = Expect.load()
{checks}
expect.finish()
"""


@dataclass
class Draft:
    """A task before it is a folder.

    Attributes:
        instruction: what the agent is asked to do.
        office: as its service begins with it.
        solve: shell commands that do it.
        checks: Python statements with `expect`, a line each.
        files: of the working folder, by path.
        max_turns: calls of the model that it should take at most.
        kept: those of `files` that must stay as they are; None for all.
    """

    instruction: str
    office: dict[str, Any]
    solve: str
    checks: list[str]
    files: dict[str, str] = field(default_factory=dict)
    max_turns: int = 20
    kept: list[str] | None = None


@dataclass
class OfficeFamily:
    """Tasks of an office that differ in their data. A `Family`.

    Attributes:
        name: of the family.
        draw: makes a draft of random numbers and a level.
        level: of all its tasks; None draws one for each.
    """

    name: str
    draw: Callable[[random.Random, Level], Draft]
    level: Level | None = None
    domain: Domain = "claw"

    def make(self, seed: int, folder: Path) -> None:
        """See `Family.make`."""
        level = random.Random(f"{self.name}/{seed}/level").choice(LEVELS) if self.level is None else self.level
        draft = self.draw(random.Random(f"{self.name}/{seed}/{level}"), level)
        write(draft, folder, self.name, level, seed)


def write(draft: Draft, folder: Path, family: str, level: Level, seed: int) -> None:
    """Writes the task folder of a draft."""
    name = f"{family}-{level}-{seed}"
    there = ["office", "office.d/seed.json", *sorted(draft.files)]
    toml = _TASK_TOML.format(
        name=name, family=family, level=level, seed=seed, max_turns=draft.max_turns, there=json.dumps(there)
    )
    kept = draft.files if draft.kept is None else {path: draft.files[path] for path in draft.kept}
    digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in sorted(kept.items())}
    checks = [*draft.checks, *([f"expect.files_untouched({json.dumps(digests, indent=4)})"] if digests else [])]
    checks.append("expect.nothing_else_changed()")
    texts = {
        "task.toml": toml,
        "instruction.md": draft.instruction.strip() + "\n",
        "environment/Dockerfile": _DOCKERFILE,
        "environment/office.d/engine.py": _source("engine.py"),
        "environment/office.d/serve.py": _source("serve.py"),
        "environment/office.d/seed.json": json.dumps(draft.office, indent=1) + "\n",
        "tests/engine.py": "# What the service is, once more: the agent could change the other one.\n" + _source("engine.py"),
        "tests/expect.py": _source("expect.py"),
        "tests/compare.py": _source("compare.py"),
        "tests/alone.py": _source("alone.py"),
        "tests/before.json": json.dumps(draft.office) + "\n",
        "tests/check.py": _CHECK.format(checks="\n".join(checks)),
    }
    texts |= {f"environment/{path}": text for path, text in draft.files.items()}
    scripts = {
        "environment/office": _source("client.py"),
        "solution/solve.sh": f"#!/bin/sh\nset -eu\n{draft.solve.strip()}\n",
        "tests/test.sh": _TEST,
    }
    for path, text in (texts | scripts).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        (folder / path).chmod(0o755 if path in scripts else 0o644)


def _source(name: str) -> str:
    """A file of the office as a task has it: beside its fellows, not in a package."""
    return (OFFICE / name).read_text(encoding="utf-8").replace(f"from {_PACKAGE} import", "import").replace(f"{_PACKAGE}.", "")
