"""The two agents whose reward is known, in fresh sandboxes: one that does nothing, and the task's own solution."""

from __future__ import annotations

from pathlib import Path

from services.synth.gates.base import Looking, said, told, trouble
from services.synth.model import Proposal, Trial, Verdict
from services.synth.ports import Room
from shared.task import load_task

NULL, ORACLE = Trial(agent="null"), Trial(agent="oracle")


def solved(folder: Path) -> bool:
    """Whether every step of a task has its solution."""
    return all((step.solution / "solve.sh").is_file() for step in load_task(folder).steps)


class Null(Looking):
    """Who does nothing gets 0."""

    name = "null"

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        ended = await room.trials.run(proposal.task_id, folder, [NULL])
        if wrong := trouble(ended[0]):
            return self.failed(*wrong, trials=told(ended))
        if ended[0].reward == 0:
            return self.passed(trials=told(ended))
        detail = (
            f"an agent that does nothing gets {ended[0].reward:g}, expected 0: let tests/test.sh give a reward only for what "
            f"is not there from the start{said(ended[0])}"
        )
        return self.failed("null-passes", detail, trials=told(ended))


class Oracle(Looking):
    """Who does what the solution does gets 1."""

    name = "oracle"

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        if not solved(folder):
            return self.failed(
                "no-solution", "there is no solution/solve.sh, so nobody knows that the task can be solved: write one"
            )
        ended = await room.trials.run(proposal.task_id, folder, [ORACLE])
        if wrong := trouble(ended[0]):
            return self.failed(*wrong, trials=told(ended))
        if ended[0].reward == 1:
            return self.passed(trials=told(ended))
        detail = (
            f"the task's own solution gets {ended[0].reward:g}, expected 1 ({ended[0].error or 'it ended by itself'}): mend "
            f"solution/solve.sh, or what tests/test.sh expects{said(ended[0])}"
        )
        return self.failed("oracle-fails", detail, trials=told(ended))
