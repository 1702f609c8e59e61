"""Every token that the engine sampled is trained, masked, dropped - or reported as unaccounted for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.trainer.books.ledger import Ledger
from shared.events import LATE, TokenCounts

sizes = st.integers(0, 50)


@st.composite
def counts(draw: st.DrawFn) -> TokenCounts:
    trained, masked, dropped = draw(sizes), draw(sizes), draw(sizes)
    reasons = {"aux": masked, "overlong": dropped}
    return TokenCounts(sampled=trained + masked + dropped, trained=trained, masked=masked, dropped=dropped, reasons=reasons)


@given(st.lists(st.tuples(counts(), st.sampled_from(["", "stale", "no_variance"]))), st.integers(-5, 5), st.booleans())
def test_the_books_balance(groups: list[tuple[TokenCounts, str]], off: int, lossy: bool) -> None:
    ledger = Ledger()
    for tokens, reason in groups:
        if reason:
            ledger.drop(tokens, reason, ())
        else:
            ledger.complete(tokens, ())
    ledger.engine_tokens = sum(t.sampled for t, _ in groups) + off
    ledger.seal("s", 1, int(lossy))
    balance = ledger.balance()
    assert balance.sampled == balance.trained + balance.masked + balance.dropped + balance.unaccounted
    assert balance.trained == sum(t.trained for t, reason in groups if not reason)
    assert sum(balance.reasons.values()) == balance.masked + balance.dropped
    assert balance.unaccounted == (min(off, 0) if lossy else off)


def test_an_engine_that_was_started_anew_counts_too_few_and_the_records_count_instead() -> None:
    ledger = Ledger(engine_tokens=3, engine_lost=True)
    ledger.complete(TokenCounts(sampled=8, trained=8), ())
    assert (ledger.balance().sampled, ledger.balance().unaccounted) == (8, 0)
    ledger.engine_tokens = 10
    assert (ledger.balance().sampled, ledger.balance().unaccounted) == (10, 2)


def test_groups_are_counted_by_what_became_of_them() -> None:
    ledger = Ledger()
    ledger.complete(TokenCounts(sampled=4, trained=4), ())
    for _ in range(2):
        ledger.drop(TokenCounts(sampled=4, trained=4), "stale", ())
    assert (ledger.groups_completed, dict(ledger.drops)) == (1, {"stale": 2})
    assert dict(ledger.reasons) == {"stale": 8}


def test_a_session_counts_once_however_often_it_is_told() -> None:
    ledger = Ledger()
    for session, recorded, unrecorded in (("a", 3, 0), ("a", 3, 0), ("b", 2, 2)):
        ledger.seal(session, recorded, unrecorded)
    assert ledger.calls_recorded == 5


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_what_came_too_late_for_its_group_is_dropped_once_and_not_at_all_where_the_group_counts_it(
    told: list[tuple[str, bool]],
) -> None:
    ledger = Ledger(engine_tokens=12)
    for session, counted in told:
        if counted and session not in ledger.counted:
            ledger.complete(TokenCounts(sampled=4, trained=4), [session])
        ledger.miss(session, TokenCounts(sampled=4, dropped=4, reasons={LATE: 4}))
    balance, missed = ledger.balance(), {session for session, _ in told} - ledger.counted
    assert (balance.trained, balance.dropped) == (4 * len(ledger.counted), 4 * len(missed))
    assert balance.unaccounted == 12 - balance.trained - balance.dropped
    assert balance.reasons == ({LATE: 4 * len(missed)} if missed else {})


def test_the_largest_gap_is_kept_and_absent_until_one_was_measured() -> None:
    ledger = Ledger()
    assert ledger.max_logprob_gap is None
    for gap in (0.0, 2e-6, 1e-6):
        ledger.compare(gap)
    assert ledger.max_logprob_gap == 2e-6
