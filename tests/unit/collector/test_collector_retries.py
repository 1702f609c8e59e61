"""Which of several calls with one prompt is trained."""

from __future__ import annotations

from shared.packing import unpack_floats
from tests.unit.collector.rollouts import Session, logprob
from tests.unit.collector.test_collector_assemble import assembled, rows_of, shown


def test_of_retries_the_extended_one_is_trained() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1], [3])
    session.call([1, 2, 9], [4])
    made = assembled(session)
    assert shown(made) == rows_of(([1, 2, 9, 4], [0, 1, 0, 1]))
    assert made.tokens.reasons == {"superseded": 1}


def test_of_retries_that_nobody_extended_the_one_that_was_delivered_is_trained() -> None:
    session = Session()
    session.call([1], [2], delivery="cut")
    session.call([1], [3])
    session.call([1], [4], delivery="cut")
    made = assembled(session)
    assert shown(made) == rows_of(([1, 3], [0, 1]))
    assert made.tokens.reasons == {"cut": 2}


def test_of_retries_that_were_all_delivered_and_never_extended_none_is_known_to_count() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1], [3])
    session.call([1], [4], role="aux")
    made = assembled(session)
    assert made.rows == []
    assert made.tokens.reasons == {"unresolved": 2, "aux": 1}
    assert made.untrained == {"unresolved": [1, 2], "aux": [3]}


def test_parallel_samples_of_one_prompt_are_both_trained_when_both_are_extended() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1], [3])
    session.call([1, 2, 9], [4])
    session.call([1, 3, 9], [5])
    assert assembled(session).tokens.trained == 4


def test_of_equal_retries_the_delivered_one_is_taken_for_the_parent() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1], [2], delivery="cut")
    session.call([1, 2, 9], [4])
    made = assembled(session)
    assert unpack_floats(made.rows[0].logprobs)[1] == logprob(1, 0)
    assert made.tokens.reasons == {"cut": 1}
