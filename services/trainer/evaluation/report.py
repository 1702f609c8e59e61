"""What an evaluation came to: `eval.json`. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from services.trainer.evaluation.intervals import Estimate, average, rate
from services.trainer.evaluation.rates import ks_of, pass_all, pass_at

SOLVED = 1 - 1e-9
"""Reward from which on an episode counts as a success."""
FILE = "eval.json"
EPISODES = "episodes.jsonl"


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One try at one task: a line of `episodes.jsonl`.

    Attributes:
        task: name of the task.
        family: of the task.
        harness: that it ran in.
        rollout_id: of the rollout.
        outcome: `finished`, `timed_out`, or the reason why the infrastructure lost it.
        reward: the verifier's; 0 where time ran out before there was one; None where it is not scored.
        calls: recorded model calls.
        tokens: that were sampled.
        agent_s: wall-clock seconds of the agent.
        attempts: it took so many.
        detail: one line for a person, where it was lost.
    """

    task: str
    family: str
    harness: str
    rollout_id: str
    outcome: str
    reward: float | None
    calls: int = 0
    tokens: int = 0
    agent_s: float = 0.0
    attempts: int = 1
    detail: str = ""


class TaskScore(msgspec.Struct, frozen=True, kw_only=True):
    """All tries at one task in one harness.

    Attributes:
        task: its name.
        family: its family.
        harness: its harness.
        tried: episodes with a reward (n).
        solved: of them, those with reward 1 (c).
        unscored: episodes that the infrastructure lost.
        reward: mean; None without a scored episode.
        calls: recorded model calls of each episode that has a trajectory.
        digest: of the task folder; empty where it was not taken.
    """

    task: str
    family: str
    harness: str
    tried: int
    solved: int
    unscored: int
    reward: float | None
    calls: list[int] = []
    digest: str = ""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Some tasks in one harness.

    Attributes:
        harness: its name.
        family: of the tasks; empty for all of them.
        tasks: with at least one scored episode.
        episodes: that are scored.
        solved: of them.
        unscored: episodes that the infrastructure lost; they count nowhere else.
        pass_at: pass@k by k. A task with fewer than k scored tries is left out of it.
        pass_all: pass^k by k, likewise.
        reward: mean reward, a vote a task.
    """

    harness: str
    family: str
    tasks: int
    episodes: int
    solved: int
    unscored: int
    pass_at: dict[int, Estimate]
    pass_all: dict[int, Estimate]
    reward: Estimate | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation.

    Attributes:
        label: what was evaluated, for a person.
        model: folder or name of the model.
        mode: of the proxy.
        temperature: of sampling.
        seed: of sampling.
        n: tries a task.
        at: seconds since the epoch when it ended.
        wall_s: seconds that it took.
        outcomes: episodes by outcome.
        scores: a harness with all its tasks, then its families if there are several; harness by harness.
        tasks: task by task.
    """

    schema: Literal[1] = 1
    label: str = ""
    model: str = ""
    mode: str = ""
    temperature: float = 1.0
    seed: int = 0
    n: int = 1
    at: float = 0.0
    wall_s: float = 0.0
    outcomes: dict[str, int] = {}
    scores: list[Score] = []
    tasks: list[TaskScore] = []

    @property
    def solved(self) -> int:
        """Episodes with reward 1."""
        return sum(t.solved for t in self.tasks)

    @property
    def scored(self) -> int:
        """Episodes with a reward."""
        return sum(t.tried for t in self.tasks)

    @property
    def unscored(self) -> int:
        """Episodes that the infrastructure lost."""
        return sum(t.unscored for t in self.tasks)

    @property
    def success(self) -> float:
        """Share of scored episodes with reward 1, in [0, 1]; each episode a vote."""
        return self.solved / self.scored


def task_scores(episodes: Iterable[Episode]) -> list[TaskScore]:
    """Episodes counted task by task, in the order of harness and task."""
    found: defaultdict[tuple[str, str], list[Episode]] = defaultdict(list)
    for episode in episodes:
        found[episode.harness, episode.task].append(episode)
    return [_task_score(of) for _, of in sorted(found.items())]


def scores(tasks: Sequence[TaskScore]) -> list[Score]:
    """Tasks counted harness by harness; within it all, then family by family if there are several."""
    made = []
    for harness in dict.fromkeys(t.harness for t in tasks):
        mine = [t for t in tasks if t.harness == harness]
        families = sorted({t.family for t in mine})
        made.append(_score(harness, "", mine))
        if len(families) > 1:
            made += [_score(harness, family, [t for t in mine if t.family == family]) for family in families]
    return made


def outcomes(episodes: Iterable[Episode]) -> dict[str, int]:
    """Episodes by outcome."""
    return dict(sorted(Counter(e.outcome for e in episodes).items()))


def _task_score(episodes: Sequence[Episode]) -> TaskScore:
    rewards = [e.reward for e in episodes if e.reward is not None]
    first = episodes[0]
    return TaskScore(
        task=first.task, family=first.family, harness=first.harness, tried=len(rewards),
        solved=sum(r >= SOLVED for r in rewards), unscored=len(episodes) - len(rewards),
        reward=fmean(rewards) if rewards else None,
        calls=[e.calls for e in episodes if e.calls],
    )  # fmt: skip


def _score(harness: str, family: str, tasks: Sequence[TaskScore]) -> Score:
    scored = [t for t in tasks if t.tried]
    ks = ks_of(max((t.tried for t in scored), default=0))
    return Score(
        harness=harness, family=family, tasks=len(scored), episodes=sum(t.tried for t in scored),
        solved=sum(t.solved for t in scored), unscored=sum(t.unscored for t in tasks),
        pass_at={k: _over(scored, k, pass_at) for k in ks}, pass_all={k: _over(scored, k, pass_all) for k in ks},
        reward=average([t.reward for t in scored if t.reward is not None]) if scored else None,
    )  # fmt: skip


def _over(tasks: Sequence[TaskScore], k: int, estimate: Callable[[int, int, int], float]) -> Estimate:
    return rate([estimate(k, t.tried, t.solved) for t in tasks if t.tried >= k])
