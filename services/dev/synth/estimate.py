"""What making tasks would cost at most, before anything is started. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from services.synth.gates.cheating import TRICKS
from services.synth.gates.repeats import most_repeats
from shared.config import Config, Role

_PROMPT_TOKENS = 8000
"""Of a prompt besides its seed: the words around it, the task that is looked at, what a gate said."""


def lines(config: Config) -> Iterator[str]:
    """What it would cost, in words."""
    synth = config.synth
    tries = 1 + (synth.rounds if synth.generator == "models" else 0)
    yield f"{synth.count} proposals by {synth.generator}, {synth.parallel} at once; domains: {', '.join(synth.domains)}"
    usual, most = _rollouts(config)
    yield f"rollouts: {usual} for a task that passes every gate at once, {synth.count * tries * most} at most"
    if synth.generator == "models":
        calls: dict[Role, int] = {"proposer": 1, "builder": 1, "refiner": synth.rounds, "judge": tries}
        yield from (_role(config, role, count) for role, count in calls.items() if count and synth.models.of(role).model)
    else:
        yield "models: none are asked, $0"
    budget = synth.budget
    limits = {"max_usd": budget.max_usd, "max_calls": budget.max_calls, "max_rollouts": budget.max_rollouts}
    said = ", ".join(f"{name} = {value:g}" for name, value in limits.items() if value)
    yield f"limits: {said or 'none; synth.budget.max_usd, max_calls and max_rollouts set some'}"


def _rollouts(config: Config) -> tuple[int, int]:
    """Of a task that passes every gate: usually, and if each agent has to be shown the time in every way there is."""
    repeats, tester = config.synth.gates.repeats, config.synth.tester
    laid_out = 1 if config.orchestrator.backend == "local" else 2
    once = 3 + laid_out + len(TRICKS) + (tester.k if tester.harness else 0)  # 3: initial state, nobody, the solution
    return once + 2 * repeats, once + 2 * most_repeats(repeats)


def _role(config: Config, role: Role, calls: int) -> str:
    about, count = config.synth.models.of(role), config.synth.count * calls
    tokens = _PROMPT_TOKENS + config.synth.models.seed_tokens
    usd = count * (tokens * about.usd_per_mtok_in + about.max_tokens * about.usd_per_mtok_out) / 1e6
    return f"{role} {about.model}: about {count} calls, ${usd:.2f} at most with answers of {about.max_tokens} tokens"
