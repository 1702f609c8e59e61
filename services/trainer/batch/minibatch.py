"""Which rows an optimizer step learns from. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def mini_batches(groups: Sequence[int], size: int) -> list[list[int]]:
    """Cuts a batch into optimizer steps of about as many groups each.

    Args:
        groups: the group of each row (B,).
        size: groups a step at most; 0 for all of them.

    Returns:
        Places of the rows of each step. All rows of a group, and so of a trajectory, are in one.
    """
    names = list(dict.fromkeys(groups))
    count = -(-len(names) // size) if size and names else 1
    step_of = {name: i * count // len(names) for i, name in enumerate(names)}
    steps: list[list[int]] = [[] for _ in range(count)]
    for place, group in enumerate(groups):
        steps[step_of[group]].append(place)
    return steps
