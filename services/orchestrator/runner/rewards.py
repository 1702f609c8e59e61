"""Whether a verification lets the next step of a task begin. Few imports, as in `phases.py`."""

from __future__ import annotations

import json


def reached(collected: dict[str, str], at_least: dict[str, float]) -> bool:
    """Whether there is a reward, and each that is named in `at_least` is there and not less."""
    rewards = read(collected)
    return rewards is not None and all(rewards.get(name, float("-inf")) >= wanted for name, wanted in at_least.items())


def read(collected: dict[str, str]) -> dict[str, float] | None:
    """The rewards by name; None if there are none that can be used."""
    try:
        if "reward.json" in collected:
            found = json.loads(collected["reward.json"])
            return {str(name): float(value) for name, value in found.items()} if isinstance(found, dict) else None
        return {"reward": float(collected["reward.txt"])}
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
