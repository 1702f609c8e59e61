"""95 % intervals and a test of differences, with tasks as the unit. Pure.

Tries at one task resemble each other, so that they are no independent evidence about other tasks: the spread of the tasks'
values is what says how far another draw of tasks could lie away (the clustered standard error). It needs no resampling, hence
no seed, and holds whether tasks had one try or a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, variance
from typing import Any

import msgspec
import numpy as np
from scipy.special import stdtrit
from scipy.stats import permutation_test

LEVEL = 0.95
FLIPS = 1 << 14
"""Ways to flip signs up to which all are tried; where there are more, so many are drawn."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A mean over tasks.

    Attributes:
        value: the mean.
        low: lower end of its 95 % interval; None where one task cannot tell.
        high: upper end.
        tasks: that it rests on.
    """

    value: float
    low: float | None
    high: float | None
    tasks: int


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A mean of paired differences.

    Attributes:
        value: the mean.
        low: lower end of its 95 % interval; None where one task cannot tell.
        high: upper end.
        p: probability of a mean so far from 0, or farther, were each difference as likely to have the other sign (two-sided).
        exact: all sign changes were tried; else a sample of them, always the same.
        tasks: that it rests on.
    """

    value: float
    low: float | None
    high: float | None
    p: float
    exact: bool
    tasks: int


def rate(values: Sequence[float]) -> Estimate:
    """The mean of shares, each in [0, 1], one a task; at least one.

    The interval is Wilson's for as many independent trials as would have the tasks' spread (the effective sample size of
    survey statistics), with Student's quantile. It stays within [0, 1], and does not vanish where all tasks agree: then every
    task counts as one trial.
    """
    mean, count = _clipped(fmean(values)), len(values)
    if count < 2:
        return Estimate(value=mean, low=None, high=None, tasks=count)
    squared_error = variance(values) / count
    trials = mean * (1 - mean) / squared_error if squared_error > 0 and 0 < mean < 1 else float(count)
    return _wilson(mean, trials, _quantile(count), count)


def average(values: Sequence[float]) -> Estimate:
    """The mean of any finite values, one a task; at least one. The interval is Student's."""
    mean, count = fmean(values), len(values)
    half = _half_width(values)
    return Estimate(
        value=mean, low=None if half is None else mean - half, high=None if half is None else mean + half, tasks=count
    )


def paired(differences: Sequence[float]) -> Difference:
    """The mean of differences, one a task; at least one. The interval is Student's, the p-value of a permutation test."""
    mean, half = fmean(differences), _half_width(differences)
    p, exact = _flip_signs(differences)
    return Difference(
        value=mean, low=None if half is None else mean - half, high=None if half is None else mean + half, p=p, exact=exact,
        tasks=len(differences),
    )  # fmt: skip


def _wilson(mean: float, trials: float, q: float, tasks: int) -> Estimate:
    shrink = 1 + q * q / trials
    middle = (mean + q * q / (2 * trials)) / shrink
    half = q / shrink * sqrt(mean * (1 - mean) / trials + q * q / (4 * trials * trials))
    # Rounding must not leave the mean outside where it is 0 or 1.
    return Estimate(value=mean, low=min(_clipped(middle - half), mean), high=max(_clipped(middle + half), mean), tasks=tasks)


def _half_width(values: Sequence[float]) -> float | None:
    return _quantile(len(values)) * sqrt(variance(values) / len(values)) if len(values) > 1 else None


def _flip_signs(differences: Sequence[float]) -> tuple[float, bool]:
    others = [d for d in differences if d]  # the sign of a 0 changes nothing
    if not others:
        return 1.0, True
    exact = 2 ** len(others) <= FLIPS
    if len(others) == 1:
        return 1.0, exact  # both signs are as far from 0

    def mean(sample: Any, axis: int) -> Any:
        return np.mean(sample, axis=axis)

    found = permutation_test(
        (np.array(others),), mean, permutation_type="samples", vectorized=True, n_resamples=FLIPS, batch=4096,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    return float(found.pvalue), exact


def _quantile(count: int) -> float:
    return float(stdtrit(count - 1, (1 + LEVEL) / 2))


def _clipped(value: float) -> float:
    return min(1.0, max(0.0, value))
