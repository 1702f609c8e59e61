"""Which token ended a reply."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.proxy.answer import Answer
from services.proxy.model import placeholder_tokens, stop_tokens, warn_without
from services.proxy.stops import Stops

EOS, OTHER = 2, 7


def answer(*completion: int, finish: str, stop: int | str | None = None) -> Answer:
    return Answer(completion=list(completion), finish_reason=finish, stop_reason=stop)


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        (answer(5, EOS, finish="stop"), EOS),
        (answer(5, EOS, finish="tool_calls"), EOS),
        (answer(5, OTHER, finish="stop", stop="a text"), None),
        (answer(5, OTHER, finish="stop", stop=OTHER), OTHER),
        (answer(5, 6, 5, OTHER, finish="length"), None),
        (answer(5, 6, 5, OTHER, finish="tool_calls"), None),
        (answer(5, 6, 5, EOS, finish="tool_calls"), EOS),
        (answer(finish="stop"), None),
    ],
)  # fmt: skip
def test_a_limit_or_a_stop_string_leaves_no_stop_token(said: Answer, ended: int | None) -> None:
    assert Stops({EOS}).end_of(said, limit=4) == ended


def test_stop_tokens_are_learned_from_replies_that_surely_ended_with_one() -> None:
    stops = Stops()
    stops.end_of(answer(5, 6, 5, OTHER, finish="tool_calls"), limit=4)
    assert stops.known == set()
    stops.end_of(answer(5, EOS, finish="tool_calls"), limit=4)
    assert stops.known == {EOS}


def test_the_models_own_files_tell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert stop_tokens(str(tmp_path)) == placeholder_tokens(str(tmp_path)) == frozenset()
    warn_without(str(tmp_path))
    assert f"engine.model {tmp_path} has no config.json here" in caplog.text
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 2, "image_token_id": 9}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 4]}))
    assert (stop_tokens(str(tmp_path)), placeholder_tokens(str(tmp_path))) == (frozenset({2, 3, 4}), frozenset({9}))
