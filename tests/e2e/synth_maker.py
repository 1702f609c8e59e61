"""A generator of a user's own, for tests: tiny tasks, and a line in a file for each that it builds."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from services.synth.families import FamilyMaker
from services.synth.model import Domain, Proposal
from services.synth.ports import Maker
from shared.config import Config

FOLDER = "OPENFORGE_TEST_SYNTH"
"""Environment variable: where it writes, and finds out how slow it is to be."""


class Words:
    """Tasks that ask for a word to be copied."""

    name = "words"
    domain: Domain = "claw"

    def make(self, seed: int, folder: Path) -> None:
        files = {
            "task.toml": f'[task]\nname = "tests/words-{seed}"\n[metadata]\nfamily = "words"\n',
            "instruction.md": f"Read /app/word-{seed}.txt, and write what it says into /app/answer.txt, on a line by itself.\n",
            f"environment/word-{seed}.txt": f"the word is w{seed}, as {_SAID[seed % len(_SAID)]} said\n",
            "environment/Dockerfile": "FROM debian:12.8-slim\nWORKDIR /app\nCOPY . /app\n",
            "tests/test.sh": _TEST.format(seed=seed),
            "solution/solve.sh": f"#!/bin/sh\nsed 's/^the word is \\([^,]*\\),.*/\\1/' word-{seed}.txt > answer.txt\n",
        }
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
            if path.endswith(".sh"):
                (folder / path).chmod(0o755)


_SAID = ("a baker", "a pilot", "a judge", "a nurse", "a diver")
_TEST = """#!/bin/sh
mkdir -p "${{LOGS_DIR:-/logs}}/verifier"
reward=0
if [ -f "${{APP_DIR:-/app}}/answer.txt" ] && [ "$(cat "${{APP_DIR:-/app}}/answer.txt")" = "w{seed}" ]; then reward=1; fi
echo "$reward" > "${{LOGS_DIR:-/logs}}/verifier/reward.txt"
"""


class Noted(FamilyMaker):
    """Notes what it builds, and takes its time."""

    def __init__(self, folder: Path) -> None:
        super().__init__([Words()], 0)
        self._folder = folder

    async def build(self, proposal: Proposal, folder: Path) -> None:
        await super().build(proposal, folder)
        await asyncio.sleep(0.3)
        with (self._folder / "built.txt").open("a") as f:
            f.write(f"{proposal.task_id}\n")


def maker(config: Config) -> Maker:
    """See `synth.generator`."""
    return Noted(Path(os.environ[FOLDER]))
