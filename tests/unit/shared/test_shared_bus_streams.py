from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.bus.streams import STREAMS, filters_of
from shared.events import MESSAGES, Message
from shared.subjects import matches

tokens = st.text("abc-", min_size=1, max_size=3)
subjects = st.lists(tokens, min_size=1, max_size=5)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_type_is_kept_by_exactly_one_stream(kind: type[Message]) -> None:
    [(_, [pattern])] = filters_of([kind], "run-1").items()
    assert sum(matches(subject, pattern) for stream in STREAMS for subject in stream.subjects) == 1


def test_filters_name_each_type_once_under_its_stream() -> None:
    filters = filters_of(MESSAGES, "*")
    assert sum(map(len, filters.values())) == len(MESSAGES)
    assert {s.name for s in filters} == {"FORGE-CALLS", "FORGE-EVENTS", "FORGE-COMMANDS", "FORGE-GROUPS"}


@given(subjects, st.data())
def test_a_pattern_matches_the_subject_it_was_made_from(subject: list[str], data: st.DataObject) -> None:
    stars = [data.draw(st.sampled_from([token, "*"])) for token in subject]
    cut = data.draw(st.integers(0, len(subject) - 1))
    assert matches(".".join(stars), ".".join(subject))
    assert matches(".".join([*stars[:cut], ">"]), ".".join(subject))


@given(subjects, subjects)
def test_a_pattern_without_wildcards_matches_itself_alone(one: list[str], two: list[str]) -> None:
    assert matches(".".join(one), ".".join(two)) == (one == two)


@given(subjects)
def test_wildcards_stand_for_whole_tokens(subject: list[str]) -> None:
    text = ".".join(subject)
    assert not matches(text + ".>", text)
    assert not matches(text + ".*", text)
    assert not matches("*." + text, text)
