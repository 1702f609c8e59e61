"""Settings of task synthesis."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.base import Count, NonNegative, Section, Whole
from shared.config.endpoints import ModelsConfig

Rate = Annotated[float, Meta(ge=0, le=1)]


class BudgetConfig(Section, frozen=True, kw_only=True):
    """What making tasks may cost; 0 is no limit. Where one is reached, tasks that are not through wait: a higher limit and
    `openforge synth resume` go on with them.

    Attributes:
        max_usd: US dollars for models, by the prices that are configured.
        max_calls: calls of models.
        max_rollouts: rollouts of tasks that are tried.
    """

    max_usd: NonNegative = 0.0
    max_calls: Whole = 0
    max_rollouts: Whole = 0


class GatesConfig(Section, frozen=True, kw_only=True):
    """What a task must pass.

    Attributes:
        repeats: runs of the agent that does nothing, and of the task's own solution, whose rewards must be alike.
        heldout: folders of tasks that no new one may be a copy of, as evaluation uses them; `tasks.heldout` is one of them
            without being named.
        pool: folders of earlier tasks that no new one may be a copy of.
    """

    repeats: Count = 3
    heldout: list[str] = []
    pool: list[str] = []


class TesterConfig(Section, frozen=True, kw_only=True):
    """Whose success says how difficult a task is.

    Attributes:
        harness: adapter that the model of `[engine]` is tried in; empty for none, and then no task's difficulty is known.
        k: tries at a task.
        above: share of tries that succeed; a task with no more is too hard.
        below: share of tries that succeed; a task with no less is too easy.
    """

    harness: str = ""
    k: Count = 8
    above: Rate = 0.0
    below: Rate = 1.0


class SynthConfig(Section, frozen=True, kw_only=True):
    """Task synthesis.

    Attributes:
        enabled: run the service in `openforge run` and `openforge dev`, too; `openforge synth` always does.
        generator: who makes tasks: `families`, programs that need no model; `models`; or `module:function` of your own, which
            is given the configuration and returns a `services.synth.ports.Maker`.
        domains: kinds of environments.
        families: names of the families to make tasks of; empty takes all of the domains.
        count: proposals.
        seed: of everything that draws.
        parallel: tasks that are worked on at once.
        to: folder that gets the accepted tasks; empty takes `synth/accepted` in the run folder.
        rounds: times that a task which failed may be changed; then it is put in quarantine.
        budget: what it may cost.
        gates: what a task must pass.
        tester: how difficult it may be.
        models: that make tasks.
    """

    enabled: bool = False
    generator: Annotated[str, Meta(pattern=r"^(families|models|[A-Za-z0-9_.]+:[A-Za-z0-9_]+)$")] = "families"
    domains: Annotated[tuple[Literal["claw", "browser", "computer"], ...], Meta(min_length=1)] = ("claw", "browser", "computer")
    families: list[str] = []
    count: Count = 60
    seed: Whole = 0
    parallel: Count = 2
    to: str = ""
    rounds: Whole = 3
    budget: BudgetConfig = BudgetConfig()
    gates: GatesConfig = GatesConfig()
    tester: TesterConfig = TesterConfig()
    models: ModelsConfig = ModelsConfig()
