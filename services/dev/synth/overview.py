"""What became of a run's candidates, counted. Pure: what is on disk in, numbers out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from services.synth.candidate import PRUNED, Candidate
from services.synth.model import Verdict
from services.synth.trials import Asked

BINS = 10
"""Of the histogram of difficulty."""


class Yield(msgspec.Struct, frozen=True, kw_only=True):
    """How many candidates got how far.

    Attributes:
        asked: proposals that were asked for.
        proposed: that were made, and like no other.
        built: whose folder was written.
        passed: that passed every gate, be it after refinement.
        accepted: that lie among the accepted ones.
    """

    asked: int = 0
    proposed: int = 0
    built: int = 0
    passed: int = 0
    accepted: int = 0


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates that were turned down for one reason at one gate; `tasks` names them."""

    gate: str
    reason: str
    tasks: list[str]


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A run of synth.

    Attributes:
        run_id: of the run.
        reached: how far candidates got.
        domains: accepted tasks by domain.
        turned_down: why candidates were, the most frequent first.
        quarantined: of those, candidates that had been changed in vain.
        refined: accepted tasks that had failed before.
        held: candidates that wait, and why.
        under_way: candidates that something is done with.
        rollouts: that ended.
        rollouts_asked: that were asked for.
        null_passes: share of tried tasks that gave a reward to an agent that did nothing, by round; None if none was tried.
        flaky: share of tasks tried again and again whose rewards differed, each round one; None if none was.
        difficulty: tasks by the share of the tester's tries that succeeded, in ten bins.
        usd: spent on models.
        calls: of models that were paid for.
        wall_s: seconds from the first question to the last end, or until now.
        minutes_per_accepted: of wall-clock time; None if none was accepted.
        usd_per_accepted: likewise.
        gates: seconds that each gate took, all candidates together.
    """

    run_id: str
    reached: Yield
    domains: dict[str, int]
    turned_down: list[Turned]
    quarantined: int
    refined: int
    held: dict[str, str]
    under_way: int
    rollouts: int
    rollouts_asked: int
    null_passes: float | None
    flaky: float | None
    difficulty: list[int]
    usd: float
    calls: int
    wall_s: float
    minutes_per_accepted: float | None
    usd_per_accepted: float | None
    gates: dict[str, float]


def overview(
    run_id: str, tasks: Sequence[Candidate], verdicts: Iterable[Verdict], trials: Sequence[Asked], paid: Sequence[float],
    now: float,
) -> Overview:  # fmt: skip
    """Counts.

    Args:
        run_id: of the run.
        tasks: all candidates.
        verdicts: of all of them, in all rounds.
        trials: all that were asked for.
        paid: what each answer of a model cost, in US dollars.
        now: unix time in seconds.
    """
    verdicts = list(verdicts)
    accepted = [task for task in tasks if task.stage == "accepted"]
    wall_s, usd = _wall_s(tasks, now), sum(paid)
    return Overview(
        run_id=run_id, reached=_reached(tasks), turned_down=_turned_down(tasks),
        held={task.task_id: task.held for task in tasks if task.held},
        domains=dict(Counter(task.proposal.domain for task in accepted if task.proposal)),
        quarantined=sum(task.stage == "quarantined" for task in tasks), refined=sum(task.round > 0 for task in accepted),
        under_way=sum(not task.over and not task.held for task in tasks),
        rollouts=sum(trial.ended is not None for trial in trials), rollouts_asked=len(trials),
        null_passes=_share(verdicts, "null", "null-passes"), flaky=_share(verdicts, "repeats", "flaky-verifier"),
        difficulty=_difficulty(verdicts), usd=usd, calls=len(paid), wall_s=wall_s,
        minutes_per_accepted=wall_s / 60 / len(accepted) if accepted else None,
        usd_per_accepted=usd / len(accepted) if accepted else None, gates=_seconds(verdicts),
    )  # fmt: skip


def _reached(tasks: Sequence[Candidate]) -> Yield:
    proposed = [task for task in tasks if task.proposal and not (task.gate == PRUNED and not task.digest)]
    built = [task for task in proposed if task.digest]
    passed = [task for task in built if task.stage == "accepted" or (task.stage == "tried" and not task.gate)]
    accepted = sum(task.stage == "accepted" for task in tasks)
    return Yield(asked=len(tasks), proposed=len(proposed), built=len(built), passed=len(passed), accepted=accepted)


def _turned_down(tasks: Sequence[Candidate]) -> list[Turned]:
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for task in tasks:
        if task.over and task.stage != "accepted":
            found[task.gate, task.reason].append(task.task_id)
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return [Turned(gate=gate, reason=reason, tasks=names) for (gate, reason), names in ordered]


def _share(verdicts: Sequence[Verdict], gate: str, reason: str) -> float | None:
    """Of the times that a gate looked, those at which it found this. Trials alone do not tell: gates try tasks that they made
    of others, too."""
    looked = [verdict for verdict in verdicts if verdict.gate == gate and verdict.outcome != "skipped"]
    return sum(verdict.reason == reason for verdict in looked) / len(looked) if looked else None


def _difficulty(verdicts: Sequence[Verdict]) -> list[int]:
    shares = [verdict.evidence["share"] for verdict in verdicts if verdict.gate == "difficulty" and "share" in verdict.evidence]
    bins = Counter(min(BINS - 1, int(share * BINS)) for share in shares)
    return [bins[number] for number in range(BINS)]


def _seconds(verdicts: Sequence[Verdict]) -> dict[str, float]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for verdict in verdicts:
        seconds[verdict.gate] += verdict.seconds
    return {gate: round(value, 3) for gate, value in seconds.items()}


def _wall_s(tasks: Sequence[Candidate], now: float) -> float:
    if not tasks:
        return 0.0
    last = max((task.ended for task in tasks), default=0.0) if all(task.over for task in tasks) else now
    return max(0.0, last - min(task.began for task in tasks))
