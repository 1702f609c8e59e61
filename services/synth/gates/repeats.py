"""Verifiers that give other rewards for the same: by the clock, by the order of a set, by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from services.synth.gates.bare import NULL, ORACLE, solved
from services.synth.gates.base import Looking, said, told, trouble
from services.synth.model import Ended, Proposal, Trial, Verdict
from services.synth.ports import Room

_CLOCKS = ("2019-02-28T23:58:30Z", "2031-07-04T06:15:00Z", "2024-02-29T12:00:00Z", "2027-12-31T23:59:30Z")
"""Years apart, on other days of the week and times of the day, with days and years that end."""
_SLEEPS = {"FAKETIME_DONT_FAKE_MONOTONIC": "0"}
"""Shows the other time by the clock that programs sleep by, too: they can sleep then, but not wait for threads."""
_NO_CLOCK = "orchestrator.clock needs"
"""What the orchestrator says where it cannot set the clock."""


class Repeats(Looking):
    """The same agents as before, several times, at other times and with other hashes.

    Some programs fail for being shown another time, whichever it is: with libfaketime 0.9.10, which is Debian 12's, Python's
    `time.sleep` does. So where a reward differs the real time is shown in the same way: if that makes no difference, the time
    does. Else the clock is varied for the verifier alone, and at last in a way in which it can sleep.

    Args:
        runs: of each agent.
    """

    name = "repeats"

    def __init__(self, runs: int) -> None:
        self._runs = runs

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        asked, notes = _Asked(room, proposal.task_id, folder), []
        for usual in await asked.of([NULL, ORACLE] if solved(folder) else [NULL]):
            again = await asked.of(self._wanted(usual.trial.agent))
            if no_clock := next((one.error for one in again if _NO_CLOCK in one.error), ""):
                notes.append(f"the clock was not varied: {no_clock}")
                again = await asked.of([replace(one.trial, clock="") for one in again])
            for one in again:
                if one.reward != usual.reward and (wrong := await self._why(asked, usual, one, notes)):
                    return self.failed(*wrong, trials=told(asked.ended))
        return self.passed(
            "; ".join(dict.fromkeys(notes)) or f"{self._runs} runs of each agent, alike", trials=told(asked.ended)
        )

    def _wanted(self, agent: str) -> list[Trial]:
        runs = range(1, self._runs + 1)
        return [
            Trial(agent=agent, run=run, clock=_CLOCKS[run % len(_CLOCKS)], env={"PYTHONHASHSEED": str(run)}) for run in runs
        ]

    async def _why(self, asked: _Asked, usual: Ended, other: Ended, notes: list[str]) -> tuple[str, str] | None:
        """Why a reward differs; None if it does so for how the time is shown, and the verifier alone is not moved by it."""
        if not other.trial.clock:
            return _differs(usual, other)
        plain = (await asked.of([replace(other.trial, clock="")]))[0]
        if plain.reward != usual.reward:
            return _differs(usual, plain)
        alone = replace(other.trial, clock_for="verifier")
        for trial in (other.trial, alone, replace(alone, env=alone.env | _SLEEPS)):
            seen, shown = await asked.of([trial, replace(trial, clock=datetime.now(UTC).strftime("%FT%TZ"))])
            if seen.reward == usual.reward:
                notes.append(f"the clock was varied for the verifier alone: {other.trial.agent} gets no time but the real one")
                return None
            if shown.reward == usual.reward:
                return _differs(usual, seen)
        notes.append(f"the clock was not varied for {other.trial.agent}: even the real time, shown by libfaketime, is too much")
        return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """All trials so far."""

    room: Room
    task_id: str
    folder: Path
    ended: list[Ended] = field(default_factory=list)

    async def of(self, wanted: Sequence[Trial]) -> list[Ended]:
        """Has trials made; one that was made before is not made again."""
        known = {str(one.trial): one for one in self.ended}
        made = await self.room.trials.run(self.task_id, self.folder, [one for one in wanted if str(one) not in known])
        self.ended.extend(made)
        known |= {str(one.trial): one for one in made}
        return [known[str(one)] for one in wanted]


def _differs(usual: Ended, other: Ended) -> tuple[str, str]:
    if wrong := trouble(other):
        return wrong
    at = f"with the clock at {other.trial.clock}" if other.trial.clock else "another time"
    detail = (
        f"{other.trial.agent} got {usual.reward} and, {at} and PYTHONHASHSEED={other.trial.env['PYTHONHASHSEED']}, "
        f"{other.reward}: let neither verifier nor solution depend on the time, the order of a set, or chance{said(other)}"
    )
    return "flaky-verifier", detail
