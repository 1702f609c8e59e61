"""Pass rates of one task from repeated tries at it. Pure.

Of n tries c succeeded. What k tries would have come to is averaged over all C(n, k) ways to choose k of the n, which estimates
without bias what k new tries come to.
"""

from __future__ import annotations

from math import comb


def pass_at(k: int, n: int, c: int) -> float:
    """pass@k: probability that at least one of k tries succeeds (Chen et al. 2021), in [0, 1].

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= c <= n.
    """
    _check(k, n, c)
    return 1 - comb(n - c, k) / comb(n, k)


def pass_all(k: int, n: int, c: int) -> float:
    """pass^k: probability that all of k tries succeed (tau-bench), in [0, 1].

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= c <= n.
    """
    _check(k, n, c)
    return comb(c, k) / comb(n, k)


def ks_of(n: int) -> list[int]:
    """The k that are reported for n tries: powers of two below n, and n.

    >>> ks_of(6)
    [1, 2, 4, 6]
    """
    return [*(k for k in (2**i for i in range(n.bit_length())) if k < n), *([n] if n else [])]


def _check(k: int, n: int, c: int) -> None:
    if not 1 <= k <= n or not 0 <= c <= n:
        raise ValueError(f"of {n} tries {c} cannot have succeeded, or {k} cannot be chosen")
