"""How difficult a task is for the model that is to be trained."""

from __future__ import annotations

import math
from pathlib import Path

from services.synth.gates.base import Looking, told, trouble
from services.synth.model import Proposal, Trial, Verdict
from services.synth.ports import Room
from shared.config.synth import TesterConfig

_Z = 1.96
"""Of an interval that holds the true share in 95 of 100 cases."""


def wilson(successes: int, tries: int) -> tuple[float, float]:
    """Wilson's interval of a share, at 95 percent."""
    share, spread = successes / tries, _Z * _Z / tries
    middle = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / tries + spread / (4 * tries)) / (1 + spread)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (low if successes else 0.0), (high if successes < tries else 1.0)


class Difficulty(Looking):
    """The tester's share of successes in several tries. One that it never solves is for a pool of hard ones.

    Args:
        tester: whose tries they are, and which shares are wanted.
    """

    name = "difficulty"

    def __init__(self, tester: TesterConfig) -> None:
        self._tester = tester

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        wanted = self._tester
        if not wanted.harness:
            return self.skipped("no tester is configured: name a harness in synth.tester.harness")
        tries = [Trial(agent=wanted.harness, run=run) for run in range(1, wanted.k + 1)]
        ended = await room.trials.run(proposal.task_id, folder, tries)
        broken = [found for one in ended if (found := trouble(one))]
        if len(broken) == len(ended):
            return self.failed(*broken[0], trials=told(ended))
        rewards = [one.reward for one in ended if one.reward is not None]
        solved = sum(reward >= 1 for reward in rewards)
        share, (low, high) = solved / len(rewards), wilson(solved, len(rewards))
        seen = {"solved": solved, "tries": len(rewards), "share": share, "low": round(low, 4), "high": round(high, 4)}
        text = f"the tester solved it in {solved} of {len(rewards)} tries (true share {low:.2f} to {high:.2f})"
        if share >= wanted.below and share > 0:
            detail = f"{text}, wanted is less than {wanted.below:g}: let it take more steps, or say less of how"
            return self.failed("too-easy", detail, **seen, trials=told(ended))
        return self.passed(text, **seen, split="hard" if share <= wanted.above else "train", trials=told(ended))
