"""Rows name the calls that they train, no two orders give two results, and their text is the conversation."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from services.collector.assemble import assemble
from services.collector.calls import REPLAY_GAP
from shared.errors import FidelityError
from shared.events import Row, Span, TrajectoryDiscarded
from shared.packing import pack_ids, unpack_ids, unpack_mask
from tests.engine import bytes_tokenizer as tokenizer
from tests.unit.collector.rollouts import Session, changed, few, sessions
from tests.unit.collector.worlds import finished, world

Json = dict[str, Any]


def rows_of(session: Session, max_row_tokens: int = 1000) -> list[Row]:
    return assemble(session.records, session.sealed(), max_row_tokens=max_row_tokens).rows


def spans_of(rows: list[Row]) -> list[Span]:
    return list(chain.from_iterable(row.spans for row in rows))


@few
@given(sessions(), st.integers(1, 30))
def test_spans_tile_the_mask(session: Session, max_row_tokens: int) -> None:
    for row in rows_of(session, max_row_tokens):
        places = [place for span in row.spans for place in range(span.start, span.end)]
        assert places == [i for i, m in enumerate(unpack_mask(row.response_mask)) if m]
        ids = unpack_ids(row.ids)
        assert all(ids[s.start : s.end] == session.completions[s.seq] for s in row.spans)
        assert all(ids[: s.start] == session.prompts[s.seq] for s in row.spans)


@few
@given(sessions(), st.integers(1, 30))
def test_each_trained_call_has_one_owner_and_knows_how_many_came_after_it(session: Session, max_row_tokens: int) -> None:
    made = assemble(session.records, session.sealed(), max_row_tokens=max_row_tokens)
    spans = spans_of(made.rows)
    trained = sorted(s.seq for s in spans)
    untrained = set(chain.from_iterable(made.untrained.values()))
    assert [n for n, times in Counter(trained).items() if times > 1] == []
    assert set(trained) == {seq for seq, ids in session.completions.items() if ids} - untrained
    assert {s.seq: s.after for s in spans} == {seq: sum(other > seq for other in trained) for seq in trained}


@few
@given(sessions(), st.integers(1, 30))
def test_rows_come_in_the_order_of_their_last_calls(session: Session, max_row_tokens: int) -> None:
    last = [row.spans[-1].seq for row in rows_of(session, max_row_tokens)]
    assert last == sorted(last)


@few
@given(sessions(), st.data())
def test_a_flipped_id_in_a_recorded_prompt_is_never_trained_on(session: Session, data: st.DataObject) -> None:
    spoilable = [i for i, r in enumerate(session.records) if r.prompt_delta]
    assume(spoilable)
    at = data.draw(st.sampled_from(spoilable))
    record = session.records[at]
    ids = unpack_ids(record.prompt_delta)
    place = data.draw(st.integers(0, len(ids) - 1))
    ids[place] += 1
    session.records[at] = changed(record, prompt_delta=pack_ids(ids))
    with pytest.raises(FidelityError, match="digest"):
        rows_of(session)


@settings(max_examples=8, deadline=None)
@given(sessions(max_calls=5), st.randoms(use_true_random=False), st.data())
def test_a_second_record_with_other_content_rejects_the_attempt_in_any_order(
    session: Session, random: Any, data: st.DataObject
) -> None:
    session.call([5], [6])
    record = data.draw(st.sampled_from(session.records))
    fields: Json = data.draw(st.sampled_from([{"model": "x"}, {"completion": b"", "logprobs": b""}, {"engine": "y"}]))
    other = changed(record, **fields)
    assume(other != record)
    messages = [*session.records, other, *random.choices(session.records, k=2), session.sealed()]
    random.shuffle(messages)

    async def scenario() -> None:
        async with world() as made:
            await made.publish(*messages)
            await made.until_quiet()
            await made.publish(finished(session.rollout, 1))
            await made.until(lambda: made.trajectories)
            [told] = made.trajectories
            assert isinstance(told, TrajectoryDiscarded)
            assert told.reason == "FidelityError"
            assert told.tokens.trained == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("gap", "reasons"),
    [
        (None, {"constrained": 2}),
        (REPLAY_GAP, {"replay": 1}),
        (0.0, {"replay": 1}),
        (2 * REPLAY_GAP, {"constrained": 2, "replay": 1}),
    ],
)
def test_a_constrained_reply_is_trained_if_the_policy_would_have_said_it_alike(
    gap: float | None, reasons: dict[str, int]
) -> None:
    session = Session()
    session.call([1], [2, 3], constrained=True, replay_gap=gap)
    made = assemble(session.records, session.sealed(), max_row_tokens=100)
    assert made.tokens.reasons == reasons
    assert made.tokens.trained == (0 if "constrained" in reasons else 2)


def test_a_close_token_that_the_template_adds_is_not_trained() -> None:
    session = Session()
    session.call([1], [2, 3], finish_reason="length")
    session.call([1, 2, 3, 99, 4], [5])
    [row] = rows_of(session)
    assert unpack_mask(row.response_mask) == [0, 1, 1, 0, 0, 1]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@few
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_the_text_of_a_row_is_the_conversation_and_what_is_trained_the_models_part(turns: list[tuple[str, str]]) -> None:
    session, messages = Session(), list[Json]()
    for asked, said in turns:
        messages.append({"role": "user", "content": asked})
        session.call(tokenizer.render(messages), [*tokenizer.encode(said), tokenizer.END])
        messages.append({"role": "assistant", "content": said})
    [row] = rows_of(session)
    ids = unpack_ids(row.ids)
    assert [*ids, *tokenizer.encode("\n")] == tokenizer.render(messages, open_turn=False)
    assert [tokenizer.decode(ids[s.start : s.end]) for s in row.spans] == [said for _, said in turns]
