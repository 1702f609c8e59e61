"""From what a verifier left to a reward. Pure."""

from __future__ import annotations

import hashlib
import math

import msgspec

from services.orchestrator.spec import PhaseStatus, Strategy
from shared.errors import VerifierError, VerifierTimeout

REWARD_FILES = ("reward.json", "reward.txt")
"""In the order in which they count."""


def read_reward(verify: PhaseStatus) -> float:
    """The reward, finite. `reward.json` (a flat object of numbers) comes before `reward.txt` (one number).

    Of the numbers in reward.json, `reward` counts, else the only one there is.

    Raises:
        VerifierTimeout: the verifier ran out of time.
        VerifierError: it left no reward or one that is not usable.
    """
    if verify["timed_out"]:
        raise VerifierTimeout(
            f"tests/test.sh was ended after {verify['seconds']:.0f} s; raise verifier.timeout_sec or make it faster"
        )
    for name, parse in zip(REWARD_FILES, (_from_json, _from_text), strict=True):
        if name in verify["collected"]:
            reward = parse(verify["collected"][name])
            if not math.isfinite(reward):
                raise VerifierError(f"{name}: {reward} is not a finite number")
            return reward
        if name in verify["too_large"]:
            raise VerifierError(f"tests/test.sh left a {name} that is too large; let it hold the reward, and more elsewhere")
    raise VerifierError(
        f"tests/test.sh (exit code {verify['exit_code']}) left neither reward.json nor reward.txt in /logs/verifier; "
        "in sandboxes without bubblewrap that folder is $LOGS_DIR/verifier; see verifier.log"
    )


def one_reward(rewards: list[float], strategy: Strategy) -> float:
    """The reward of an attempt whose task has one or several steps: of those that were verified, the last or the mean."""
    return rewards[-1] if strategy == "final" else sum(rewards) / len(rewards)


def coin(rollout_id: str) -> float:
    """A fair coin, 0 or 1, always the same for a rollout: the reward of control runs."""
    return float(hashlib.sha256(rollout_id.encode()).digest()[0] & 1)


def _from_json(text: str) -> float:
    try:
        rewards = msgspec.json.decode(text, type=dict[str, float])
    except msgspec.DecodeError as e:
        raise VerifierError(f"reward.json: expected one flat object of numbers: {e}") from None
    if "reward" in rewards:
        return rewards["reward"]
    if len(rewards) == 1:
        return next(iter(rewards.values()))
    raise VerifierError(f"reward.json: none of {sorted(rewards)} is named 'reward', and there is not exactly one")


def _from_text(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise VerifierError(f"reward.txt: {text[:80]!r} is not a number") from None
