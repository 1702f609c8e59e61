from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.spec import PhaseStatus
from services.orchestrator.verify import coin, read_reward
from shared.errors import VerifierError
from tests.unit.orchestrator.statuses import phase_status

finite = st.floats(allow_nan=False, allow_infinity=False)


def left(**collected: str) -> PhaseStatus:
    """A verifier that ended, with the files that it left; `json` and `txt` name them."""
    files = {f"reward.{ending}": text for ending, text in collected.items()}
    return phase_status(collected=files)


@given(finite, st.sampled_from(["{}", " {}\n", "\n{}"]))
def test_any_finite_number_in_reward_txt_is_the_reward(value: float, form: str) -> None:
    assert read_reward(left(txt=form.format(value))) == value


@given(st.dictionaries(st.text(), finite), finite)
def test_the_entry_named_reward_counts_whatever_else_there_is(others: dict[str, float], value: float) -> None:
    assert read_reward(left(json=json.dumps({**others, "reward": value}))) == value


@given(st.text(), finite)
def test_a_single_entry_is_the_reward_whatever_its_name(name: str, value: float) -> None:
    assert read_reward(left(json=json.dumps({name: value}))) == value


@given(st.dictionaries(st.text().filter(lambda name: name != "reward"), finite).filter(lambda entries: len(entries) != 1))
def test_entries_of_which_none_stands_out_are_refused(entries: dict[str, float]) -> None:
    with pytest.raises(VerifierError, match="named 'reward'"):
        read_reward(left(json=json.dumps(entries)))


@given(st.text())
def test_any_text_is_a_finite_reward_or_a_verifier_error(text: str) -> None:
    for status in (left(txt=text), left(json=text)):
        try:
            reward = read_reward(status)
        except VerifierError:
            continue
        assert math.isfinite(reward)


def test_reward_json_comes_before_reward_txt() -> None:
    assert read_reward(left(json='{"reward": 0.25}', txt="1")) == 0.25
    with pytest.raises(VerifierError, match=r"reward\.json"):
        read_reward(left(json="", txt="1"))


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_a_reward_that_is_not_finite_is_refused(text: str) -> None:
    with pytest.raises(VerifierError, match="not a finite number"):
        read_reward(left(txt=text))


@pytest.mark.parametrize("text", ['{"reward": true}', '{"reward": "1"}', '{"reward": null}', "[1]", "1", '{"a": {"b": 1}}', ""])
def test_reward_json_must_be_a_flat_object_of_numbers(text: str) -> None:
    with pytest.raises(VerifierError, match="flat object of numbers"):
        read_reward(left(json=text))


def test_no_reward_at_all_says_where_it_is_looked_for() -> None:
    with pytest.raises(VerifierError, match=r"LOGS_DIR/verifier"):
        read_reward(left())


def test_a_verifier_out_of_time_has_no_reward_even_if_it_left_one() -> None:
    status = left(txt="1")
    status["timed_out"] = True
    with pytest.raises(VerifierError, match=r"raise verifier\.timeout_sec"):
        read_reward(status)


def test_the_coin_is_fair_and_stays_as_it_fell() -> None:
    tosses = [coin(f"rollout-{n}") for n in range(2000)]
    assert set(tosses) == {0.0, 1.0}
    assert abs(sum(tosses) / 2000 - 0.5) < 0.05
    assert tosses == [coin(f"rollout-{n}") for n in range(2000)]


def test_a_reward_that_is_too_large_for_the_status_is_named() -> None:
    with pytest.raises(VerifierError, match=r"a reward\.json that is too large"):
        read_reward(phase_status(too_large=["reward.json"], collected={"reward.txt": "1"}))
