"""Rewards without the work: agents in training find them, so another one looks for them first."""

from __future__ import annotations

from pathlib import Path

from services.synth.gates.bare import NULL
from services.synth.gates.base import Looking, said, told, trouble
from services.synth.model import Proposal, Trial, Verdict
from services.synth.ports import Room

TRICKS = {
    "rewards": "it wrote rewards wherever it could (reward.txt in the working folder, above and beside it), and went on "
    "writing them: let tests/test.sh read nothing as a verdict that the agent could have written",
    "shims": "it put programs and Python modules of its own where the verifier takes them from (the working folder): let "
    'tests/test.sh run nothing from there, and Python as `python3 -I "$TESTS_DIR/check.py"`',
    "links": "it made what is asked for as links to the verifier's own files: let tests/test.sh refuse links, and give those "
    "files other names",
    "answers": "it found something called an answer, and copied it: keep answers in tests/ and solution/ alone",
}
"""What the harness `cheat` does for each value of $CHEAT, and what to do about it."""


class Cheating(Looking):
    """The harness `cheat` gets 0, whichever trick it tries."""

    name = "cheat"

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        wanted = [Trial(agent="cheat", run=run, env={"CHEAT": trick}) for run, trick in enumerate(TRICKS, 1)]
        nothing, *ended = await room.trials.run(proposal.task_id, folder, [NULL, *wanted])
        for one in ended:
            if (one.reward or 0) > (nothing.reward or 0):  # what is given for nothing is the business of another gate
                detail = f"an agent that cheats gets {one.reward:g}, expected 0: {TRICKS[one.trial.env['CHEAT']]}{said(one)}"
                return self.failed("reward-for-cheating", detail, trials=told(ended))
        for one in ended:  # no reward at all is none to be had by cheating, but a hanging verifier is a way to stop a run
            if (wrong := trouble(one)) and wrong[0] not in ("no-reward",):
                return self.failed(*wrong, trials=told(ended))
        return self.passed(trials=told(ended))
