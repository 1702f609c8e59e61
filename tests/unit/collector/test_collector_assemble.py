"""Rows hold exactly what the engine saw and sampled, and every sampled token is accounted for."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.collector.assemble import Assembled, assemble, missing
from shared.errors import FidelityError
from shared.events import Row
from shared.packing import pack_floats, pack_ids, unpack_floats, unpack_ids, unpack_mask
from tests.unit.collector.rollouts import Session, changed, few, logprob, sessions

LONG = 1000


def assembled(session: Session, max_row_tokens: int = LONG, **seal: Any) -> Assembled:
    return assemble(session.records, session.sealed(**seal), max_row_tokens=max_row_tokens)


def trained_places(rows: list[Row]) -> list[tuple[float, list[int], int]]:
    """(log-probability, context, id) of every trained token, in the order of rows and places."""
    places = []
    for row in rows:
        ids, mask, logprobs = unpack_ids(row.ids), unpack_mask(row.response_mask), unpack_floats(row.logprobs)
        places += [(logprobs[i], ids[:i], ids[i]) for i in range(len(ids)) if mask[i]]
    return places


def rows_of(*rows: tuple[list[int], list[int]]) -> list[tuple[list[int], list[int]]]:
    return list(rows)


def shown(made: Assembled) -> list[tuple[list[int], list[int]]]:
    return [(unpack_ids(r.ids), unpack_mask(r.response_mask)) for r in made.rows]


@few
@given(sessions(), st.integers(1, 30))
def test_every_sampled_token_is_trained_once_or_has_a_reason(session: Session, max_row_tokens: int) -> None:
    made = assembled(session, max_row_tokens)
    tokens = made.tokens
    assert tokens.sampled == session.sampled == tokens.trained + tokens.masked + tokens.dropped
    assert sum(tokens.reasons.values()) == tokens.masked + tokens.dropped
    assert tokens.trained == sum(sum(r.response_mask) for r in made.rows)
    assert tokens.dropped == tokens.reasons.get("overlong", 0) + tokens.reasons.get("replay", 0)


@few
@given(sessions(), st.integers(1, 30))
def test_trained_tokens_have_the_context_and_logprob_that_the_engine_had(session: Session, max_row_tokens: int) -> None:
    engine = {
        logprob(seq, i): (session.prompts[seq] + completion[:i], completion[i])
        for seq, completion in session.completions.items()
        for i in range(len(completion))
    }
    places = trained_places(assembled(session, max_row_tokens).rows)
    assert all(engine[p] == (context, token) for p, context, token in places)
    assert len({p for p, _, _ in places}) == len(places), "a token is trained twice"


@few
@given(sessions(), st.integers(1, 30))
def test_rows_are_well_formed(session: Session, max_row_tokens: int) -> None:
    for row in assembled(session, max_row_tokens).rows:
        mask, logprobs = unpack_mask(row.response_mask), unpack_floats(row.logprobs)
        assert len(unpack_ids(row.ids)) == len(mask) == len(logprobs) <= max_row_tokens
        assert set(mask) <= {0, 1}
        assert mask[-1] == 1
        assert 0 < row.prompt_len < len(mask)
        assert not any(mask[: row.prompt_len])
        assert all(p == 0 for p, m in zip(logprobs, mask, strict=True) if not m)


@few
@given(sessions(), st.randoms())
def test_order_of_records_does_not_matter(session: Session, random: Any) -> None:
    shuffled = random.sample(session.records, len(session.records))
    assert assemble(shuffled, session.sealed(), max_row_tokens=LONG) == assembled(session)


@few
@given(sessions())
def test_what_the_proxy_noted_about_parents_only_serves_to_restore_prompts(session: Session) -> None:
    whole = Session()
    for r in session.records:
        kept = {f: getattr(r, f) for f in ("role", "constrained", "replay_gap", "delivery", "finish_reason")}
        whole.call(session.prompts[r.seq], session.completions[r.seq], as_root=True, **kept)
    assert assembled(whole) == assembled(session)


@few
@given(sessions(), st.sets(st.integers(1, 9)))
def test_tokens_of_calls_that_errored_after_all_are_dropped(session: Session, errored: set[int]) -> None:
    errored &= session.prompts.keys()
    made = assembled(session, errored=sorted(errored))
    assert made.tokens.sampled == session.sampled
    assert made.tokens.reasons.get("lost", 0) == sum(len(session.completions[seq]) for seq in errored)
    assert made.calls == len(session.records) - len(errored)
    assert not {logprob(seq, 0) for seq in errored} & {p for p, _, _ in trained_places(made.rows)}


@few
@given(sessions(max_calls=5), st.data())
def test_flipping_one_prompt_id_prevents_the_merge(session: Session, data: st.DataObject) -> None:
    seq = session.call([5, 5], [6])
    prompt = [*session.full(seq), 5]
    straight, flipped = list(prompt), list(prompt)
    flipped[data.draw(st.integers(0, len(prompt) - 2))] = 9
    forks = len(assembled(session).rows)
    session.call(flipped, [8])
    assert len(assembled(session).rows) == forks + 1
    session.call(straight, [8])
    assert len(assembled(session).rows) == forks + 1


def test_a_conversation_is_one_row_with_tool_results_masked() -> None:
    session = Session()
    session.call([1, 2], [3, 4])
    session.call([1, 2, 3, 4, 9, 9], [5], finish_reason="length")
    made = assembled(session)
    assert shown(made) == rows_of(([1, 2, 3, 4, 9, 9, 5], [0, 0, 1, 1, 0, 0, 1]))
    assert made.rows[0].prompt_len == 2
    assert unpack_floats(made.rows[0].logprobs) == [0, 0, logprob(1, 0), logprob(1, 1), 0, 0, logprob(2, 0)]
    assert made.calls == 2


def test_a_branch_trains_the_shared_calls_in_the_first_row_only() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1, 2, 9], [3])
    session.call([1, 2, 8], [4])
    made = assembled(session)
    assert shown(made) == rows_of(([1, 2, 9, 3], [0, 1, 0, 1]), ([1, 2, 8, 4], [0, 0, 0, 1]))
    assert [r.prompt_len for r in made.rows] == [1, 1]


def test_interleaved_subagents_do_not_break_the_main_chain() -> None:
    session = Session()
    session.call([1], [2])
    session.call([7], [6], role="sub")
    session.call([1, 2, 9], [3])
    session.call([7, 6, 9], [5], role="sub")
    assert shown(assembled(session)) == rows_of(([1, 2, 9, 3], [0, 1, 0, 1]), ([7, 6, 9, 5], [0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("aux", {"role": "aux"}),
        ("aux", {"role": "judge"}),
        ("constrained", {"constrained": True}),
        ("cut", {"delivery": "cut"}),
    ],
)
def test_a_leaf_that_is_not_trained_makes_no_row(reason: str, fields: dict[str, Any]) -> None:
    session = Session()
    session.call([1], [2])
    session.call([1, 2, 9], [3, 4], **fields)
    made = assembled(session)
    assert shown(made) == rows_of(([1, 2], [0, 1]))
    assert (made.tokens.masked, made.tokens.reasons) == (2, {reason: 2})


def test_what_goes_on_from_a_stray_placeholder_is_not_trained_and_what_does_not_is() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1, 2, 9], [3], stray_media=True)
    session.call([1, 2, 9, 3, 9], [4, 5])
    session.call([1, 2, 8], [6])
    made = assembled(session)
    assert shown(made) == rows_of(([1, 2, 8, 6], [0, 1, 0, 1]))
    assert made.untrained == {"stray_media": [2, 3]}
    assert (made.tokens.masked, made.tokens.reasons) == (3, {"stray_media": 3})


def test_masked_calls_stay_in_the_context_of_later_ones() -> None:
    session = Session()
    session.call([1], [2], constrained=True)
    session.call([1, 2, 9], [3])
    assert shown(assembled(session)) == rows_of(([1, 2, 9, 3], [0, 0, 0, 1]))


def test_a_cut_call_is_trained_once_a_later_prompt_contains_it() -> None:
    session = Session()
    session.call([1], [2])
    assert assembled(session, cut=[1]).tokens.reasons == {"cut": 1}
    session.call([1, 2, 9], [3])
    assert assembled(session, cut=[1]).tokens.trained == 2


def test_long_rows_are_cut_between_calls() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1, 2, 9], [3, 3])
    session.call([1, 2, 9, 3, 3, 9], [4])
    made = assembled(session, max_row_tokens=6)
    assert shown(made) == rows_of(([1, 2, 9, 3, 3], [0, 1, 0, 1, 1]))
    assert (made.tokens.dropped, made.tokens.reasons) == (1, {"overlong": 1})


def test_a_session_without_calls_has_no_rows() -> None:
    made = assembled(Session())
    assert (made.rows, made.tokens.sampled, made.calls) == ([], 0, 0)


def test_weight_versions_span_those_of_the_calls() -> None:
    session = Session()
    session.call([1], [2], weight_version_start=3, weight_version_end=3)
    session.call([1, 2, 9], [4], weight_version_start=4, weight_version_end=5)
    assert (assembled(session).min_version, assembled(session).max_version) == (3, 5)


def test_missing_calls_are_those_neither_recorded_nor_errored_nor_lost() -> None:
    sealed = Session().sealed(calls=5, errored=[2], lost=[5])
    assert missing(sealed, [3]) == [1, 4]
    assert missing(sealed, [1, 3, 4]) == []


def two_calls() -> Session:
    session = Session()
    session.call([1, 2], [3, 4])
    session.call([1, 2, 3, 4, 5], [6])
    return session


@pytest.mark.parametrize(
    ("cause", "fields"),
    [
        ("its parent, call 7, is not there", {"parent_seq": 7}),
        ("its parent, call 2, is not there", {"parent_seq": 2}),
        ("takes over 5 tokens of a parent that has 4", {"parent_len": 5}),
        ("takes over 3 tokens of a parent that has 4", {"parent_len": 3, "prompt_delta": pack_ids([4, 5])}),
        ("takes over 4 tokens of a parent that has 0", {"parent_seq": None}),
        ("its prompt has 5 tokens, not 6", {"prompt_len": 6}),
        ("its prompt has 6 tokens, not 5", {"prompt_delta": pack_ids([5, 5])}),
        ("its prompt has 4.5 tokens, not 5", {"prompt_delta": b"\x05\x00"}),
        ("digest", {"prompt_delta": pack_ids([8])}),
        ("1 sampled ids and 2 log-prob", {"logprobs": pack_floats([-1, -1])}),
        ("0.5 sampled ids and 0.5 log-prob", {"completion": b"ab", "logprobs": b"ab"}),
        ("not finite", {"logprobs": pack_floats([math.nan])}),
        ("not finite", {"logprobs": pack_floats([-math.inf])}),
    ],
)
def test_a_record_that_breaks_its_promises_is_named_with_the_cause(cause: str, fields: dict[str, Any]) -> None:
    session = two_calls()
    session.records[1] = changed(session.records[1], **fields)
    with pytest.raises(FidelityError, match=f"call 2 of session r1-a1: .*{cause}"):
        assembled(session)


@pytest.mark.parametrize(
    ("cause", "seal"),
    [("missing", {"calls": 3}), ("only 1 to 1 were numbered", {"calls": 1}), ("no durable record", {"lost": [2]})],
)
def test_a_session_that_does_not_add_up_gives_nothing(cause: str, seal: dict[str, Any]) -> None:
    with pytest.raises(FidelityError, match=cause):
        assembled(two_calls(), **seal)


def test_a_record_may_build_on_an_equal_call_with_a_higher_number() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1, 2, 9], [3])
    session.call([1], [2])
    straight = assembled(session)
    session.records[1] = changed(session.records[1], parent_seq=3)
    assert assembled(session) == straight
