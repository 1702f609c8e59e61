"""What synth speaks of: proposals, verdicts, trials. Data only."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Domain = Literal["claw", "browser", "computer"]
"""Kind of environment: files and mock services; pages in a browser; a desktop."""
Outcome = Literal["passed", "failed", "skipped"]


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a task comes from.

    Attributes:
        generator: `families`, or `models`.
        seed: of the family's random numbers; a family makes the same task of the same seed, byte for byte.
        source: the scenario, document, task or repository that it was made of, by name and digest.
        prompts: digest of each prompt file that was used, by its name.
        models: model that each role had, by role.
        calls: keys of the answers of models that it was made of: the proposal's; of an accepted task also those of
            builder, refiner and judge, round by round.
        sessions: recording sessions of the rollouts in which a harness built or mended it.
    """

    generator: str
    seed: int = 0
    source: str = ""
    prompts: dict[str, str] = {}
    models: dict[str, str] = {}
    calls: list[str] = []
    sessions: list[str] = []


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """An idea of a task.

    Attributes:
        task_id: legal as an id (`shared.ids.check_id`); the same proposal has the same one after a restart.
        domain: kind of its environment.
        family: of tasks that differ in their data only; a model's own tasks have one each, or that of their seed.
        title: a line for people.
        brief: what the task will ask for; what is compared with other proposals before anything is built.
        details: what its maker needs to build it, as JSON.
        lineage: where it comes from.
    """

    task_id: str
    domain: Domain
    family: str
    title: str
    brief: str
    details: dict[str, Any] = {}
    lineage: Lineage


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate says of a task.

    Attributes:
        gate: its name.
        outcome: `skipped` if the gate could not look, and then `detail` says why; that stops nothing.
        reason: of a failure, in a word that can be counted: `null-passes`, `near-copy`.
        detail: for people, and for the model that is to mend it: log, diff, numbers.
        evidence: what was seen, as JSON; it is kept beside the task.
        seconds: wall-clock seconds that it took.
    """

    gate: str
    outcome: Outcome
    reason: str = ""
    detail: str = ""
    evidence: dict[str, Any] = {}
    seconds: float = 0.0


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout of a task that is wanted.

    Attributes:
        agent: name of the harness: `null`, `oracle`, `cheat`, or that of the tester.
        run: which of several like ones; counts from 1.
        clock: ISO time that the sandbox sees; empty for the real one.
        clock_for: who sees it: every program, or the verifier's alone.
        env: environment variables of agent and verifier, such as PYTHONHASHSEED.
    """

    agent: str
    run: int = 1
    clock: str = ""
    clock_for: Literal["all", "verifier"] = "all"
    env: dict[str, str] = {}


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a trial ended.

    Attributes:
        trial: which.
        reward: None if there is none.
        error: why not, or that the agent ran out of time or failed; empty if all is well.
        timed_out: it was the agent's or the verifier's time.
        seconds: of agent and verifier.
        said: end of what agent and verifier printed.
        session: recording session of the attempt that counted: what it left in the run folder lies in `rollouts/<session>`.
        image: digest of the image that its sandbox ran; empty where there is none.
    """

    trial: Trial
    reward: float | None = None
    error: str = ""
    timed_out: bool = False
    seconds: float = 0.0
    said: str = ""
    session: str = ""
    image: str = ""
