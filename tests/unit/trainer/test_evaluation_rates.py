"""Estimators and intervals of evaluations, beside brute force and simulation."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations, product
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.evaluation.intervals import average, paired, rate
from services.trainer.evaluation.rates import ks_of, pass_all, pass_at

TRIES = st.integers(1, 8).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n), st.integers(0, n)))
SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=40)


@given(TRIES)
def test_both_rates_are_those_of_every_way_to_choose_k_tries(knc: tuple[int, int, int]) -> None:
    k, n, c = knc
    chosen = list(combinations([1] * c + [0] * (n - c), k))
    assert pass_at(k, n, c) == pytest.approx(Fraction(sum(any(tries) for tries in chosen), len(chosen)))
    assert pass_all(k, n, c) == pytest.approx(Fraction(sum(all(tries) for tries in chosen), len(chosen)))


@given(st.integers(1, 6), st.fractions(0, 1, max_denominator=7), st.data())
def test_the_estimators_are_unbiased(n: int, p: Fraction, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n))
    outcomes = [(c := sum(tries), p**c * (1 - p) ** (n - c)) for tries in product((0, 1), repeat=n)]
    assert sum(w * Fraction(pass_at(k, n, c)).limit_denominator(1000) for c, w in outcomes) == 1 - (1 - p) ** k
    assert sum(w * Fraction(pass_all(k, n, c)).limit_denominator(1000) for c, w in outcomes) == p**k


@given(TRIES)
def test_more_tries_help_one_rate_and_hurt_the_other(knc: tuple[int, int, int]) -> None:
    k, n, c = knc
    assert pass_all(k, n, c) <= pass_all(1, n, c) == pytest.approx(c / n) == pass_at(1, n, c) <= pass_at(k, n, c) + 1e-12


@pytest.mark.parametrize(("k", "n", "c"), [(0, 1, 0), (2, 1, 0), (1, 1, 2), (1, 1, -1)])
def test_impossible_counts_are_refused(k: int, n: int, c: int) -> None:
    for estimate in (pass_at, pass_all):
        with pytest.raises(ValueError, match="cannot"):
            estimate(k, n, c)


def test_powers_of_two_and_n_are_reported() -> None:
    assert [ks_of(n) for n in (0, 1, 2, 3, 8, 10)] == [[], [1], [1, 2], [1, 2, 3], [1, 2, 4, 8], [1, 2, 4, 8, 10]]


@given(SHARES)
def test_an_interval_of_shares_holds_the_mean_and_lies_between_0_and_1(shares: list[float]) -> None:
    found = rate(shares)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.value == pytest.approx(fmean(shares))
    assert found.low < found.high


def test_tasks_that_all_agree_leave_room_for_others() -> None:
    solved = rate([1.0] * 20)
    assert (solved.value, solved.high) == (1.0, 1.0)
    assert solved.low == pytest.approx(20 / (20 + 2.093**2), abs=1e-3)  # Wilson's, of 20 trials
    assert rate([1.0]).low is None


def test_one_try_a_task_gives_wilsons_interval_but_for_the_quantile() -> None:
    found = rate([1.0] * 60 + [0.0] * 40)
    assert found.low == pytest.approx(0.502, abs=0.004)  # 0.5020 and 0.6906 by the textbook
    assert found.high == pytest.approx(0.691, abs=0.004)


@pytest.mark.parametrize(("tasks", "tries", "spread"), [(20, 4, 0.9), (40, 8, 0.5), (100, 1, 0.0)])
def test_nineteen_of_twenty_intervals_hold_the_true_rate(tasks: int, tries: int, spread: float) -> None:
    """A task's own rate is drawn, then its tries; the intervals shall hold the mean rate of all tasks that there could be."""
    rng, truth, held, rounds = random.Random(1), 0.7, 0, 400
    for _ in range(rounds):
        rates = [1.0 if rng.random() < truth else 0.0 for _ in range(tasks)]
        mixed = [spread * r + (1 - spread) * truth for r in rates]
        found = rate([fmean(rng.random() < r for _ in range(tries)) for r in mixed])
        held += (found.low or 0) <= truth <= (found.high or 0)
    assert 0.925 <= held / rounds <= 0.985


def test_tries_at_one_task_are_no_evidence_about_others() -> None:
    once, often = rate([1.0, 0.0] * 10), rate([8 / 8, 0 / 8] * 10)
    assert once == often


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_the_permutation_test_is_that_of_all_sign_changes(differences: list[int]) -> None:
    seen = abs(sum(differences))
    signs = product((1, -1), repeat=len(differences))
    flipped = [abs(sum(s * d for s, d in zip(some, differences, strict=True))) for some in signs]
    found = paired([d / 4 for d in differences])
    assert found.p == pytest.approx(sum(f >= seen for f in flipped) / len(flipped))
    assert found.exact


def test_many_tasks_are_tested_by_a_sample_of_sign_changes_that_is_always_the_same() -> None:
    rng = random.Random(2)
    same = paired([rng.choice((-1, 0, 1)) / 4 for _ in range(200)])
    better = paired([rng.choice((-1, 1, 1)) / 4 for _ in range(200)])
    assert not same.exact
    assert same.p > 0.05 > better.p
    rng = random.Random(2)
    assert paired([rng.choice((-1, 0, 1)) / 4 for _ in range(200)]) == same


def test_the_interval_of_a_mean_is_students() -> None:
    found = average([1.0, 2.0, 3.0, 4.0])
    half = 3.1824 * (5 / 3) ** 0.5 / 2
    assert [found.low, found.value, found.high] == pytest.approx([2.5 - half, 2.5, 2.5 + half], abs=1e-3)
