"""Tasks, trials and pools for tests of gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.synth.gates.texts import text_of
from services.synth.model import Ended, Lineage, Proposal, Trial, Verdict
from services.synth.ports import Gate, Judge, Room, Text, Trials
from tests.unit.dev.sets import put

GOOD = {
    "task.toml": '[task]\nname = "demo/sum-1"\n[verifier]\ntimeout_sec = 20.0\n',
    "instruction.md": "Write the sum of the numbers in numbers.txt to sum.txt.\n",
    "environment/numbers.txt": "17\n4\n21\n", "environment/Dockerfile": "FROM debian:bookworm-slim\nCOPY numbers.txt /app/\n",
    "tests/test.sh": '#!/bin/sh\n[ "$(cat sum.txt)" = 42 ] && r=1 || r=0\necho $r > "$LOGS_DIR/verifier/reward.txt"\n',
    "solution/solve.sh": "#!/bin/sh\nawk '{ sum += $1 } END { print sum }' numbers.txt > sum.txt\n",
}  # fmt: skip
PROPOSAL = Proposal(
    task_id="sum-1", domain="claw", family="demo/sum", title="a sum", brief="a sum", lineage=Lineage(generator="families")
)


def good(folder: Path, **files: str) -> Path:
    """A sound task, with some files changed."""
    return put(folder, GOOD | files)


@dataclass(slots=True)
class Scripted:
    """Trials that end as a function says."""

    ends: Callable[[Trial, Path], Ended | float | None]
    asked: list[Trial] = field(default_factory=list)

    async def run(self, task_id: str, folder: Path, wanted: Sequence[Trial]) -> list[Ended]:
        """See `Trials.run`."""
        self.asked += wanted
        ended = [(trial, self.ends(trial, folder)) for trial in wanted]
        return [one if isinstance(one, Ended) else Ended(trial=trial, reward=one) for trial, one in ended]


@dataclass(slots=True)
class Shelf:
    """A pool."""

    before: list[Text] = field(default_factory=list)
    evaluation: list[Text] = field(default_factory=list)

    def accepted(self) -> Sequence[Text]:
        """See `Pool.accepted`."""
        return self.before

    def held_out(self) -> Sequence[Text]:
        """See `Pool.held_out`."""
        return self.evaluation


def sound(trial: Trial, folder: Path) -> float:
    """How the trials of a sound task end."""
    return 1.0 if trial.agent == "oracle" else 0.0


async def judged(
    gate: Gate, folder: Path, trials: Trials | None = None, pool: Shelf | None = None, judge: Judge | None = None
) -> Verdict:
    """What a gate says."""
    evidence = folder.parent / "evidence"
    evidence.mkdir(exist_ok=True)
    return await gate.judge(PROPOSAL, folder, Room(trials or Scripted(sound), pool or Shelf(), evidence, {}, judge))


def shelf(folder: Path, name: str = "demo/sum-1", family: str = "") -> Text:
    """A task as a pool has it."""
    text = text_of(folder)
    return Text(name, text.text, text.digest, family or text.family, text.environment, text.answer)
