"""Verifiers that give other rewards for the same: by the clock, by the order of a set, by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _all(trial: Trial) -> Trial:
    return trial


def _alone(trial: Trial) -> Trial:
    return replace(trial, clock_for="verifier")


def _real(trial: Trial) -> Trial:
    return replace(trial, clock="")


_WAYS: dict[Callable[[Trial], Trial], str] = {
    _all: "", _alone: "the clock was varied for the verifier alone",
    _real: "the clock was not varied: libfaketime is not there, or even the real time that it shows is too much",
}  # fmt: skip
"""How the time can be shown, the best way first, and what is to be said of it."""


def most_repeats(runs: int) -> int:
    """Trials of one agent, if it has to be tried in every way, and the real time be shown it in every way but the last."""
    return len(_WAYS) * runs + 2 * (len(_WAYS) - 1)


class Repeats(Looking):
    """The same agents as before, several times, at other times and with other hashes.

    A program may fail for being shown another time by a library, whichever it is. So where a reward differs the real time is
    shown in the same way: if that makes no difference, the time does. Else the clock is varied for the verifier alone, and at
    last not at all.

    Args:
        runs: of each agent.
    """

    name = "repeats"

    def __init__(self, runs: int) -> None:
        self._runs = runs

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        asked = _Asked(room, proposal.task_id, folder)
        notes: list[str] = []
        for usual in await asked.of([NULL, ORACLE] if solved(folder) else [NULL]):
            if wrong := await self._differs(asked, usual, notes):
                return self.failed(*wrong, trials=told(asked.ended))
        return self.passed("; ".join(notes) or f"{self._runs} runs of each agent, alike", trials=told(asked.ended))

    async def _differs(self, asked: _Asked, usual: Ended, notes: list[str]) -> tuple[str, str] | None:
        """What speaks against an agent's runs; notes how its clock was varied where that is not the usual way."""
        agent = usual.trial.agent
        for way, note in _WAYS.items():
            again = await asked.of([way(trial) for trial in self._wanted(agent)])
            other = next((one for one in again if one.reward != usual.reward), None)
            if other is None:
                notes += [f"{agent}: {note}"] if note else []
                return None
            if not other.trial.clock:
                return _told(usual, other)
            real = datetime.now(UTC).strftime("%FT%TZ")
            plain, shown = await asked.of([replace(other.trial, clock=""), replace(other.trial, clock=real)])
            if plain.reward != usual.reward:
                return _told(usual, plain)
            if shown.reward == usual.reward:
                return _told(usual, other)
        return None

    def _wanted(self, agent: str) -> list[Trial]:
        runs = range(1, self._runs + 1)
        return [
            Trial(agent=agent, run=run, clock=_CLOCKS[run % len(_CLOCKS)], env={"PYTHONHASHSEED": str(run)}) for run in runs
        ]


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


def _told(usual: Ended, other: Ended) -> tuple[str, str]:
    if wrong := trouble(other):
        return wrong
    at = f"with the clock at {other.trial.clock}" if other.trial.clock else "another time"
    detail = (
        f"{other.trial.agent} got {usual.reward} and, {at} and PYTHONHASHSEED={other.trial.env['PYTHONHASHSEED']}, "
        f"{other.reward}: let neither verifier nor solution depend on the time, the order of a set, or chance{said(other)}"
    )
    return "flaky-verifier", detail
