"""Secrets and lineages."""

from __future__ import annotations

import json
import re

import pytest

from services.proxy.sessions import Book, Origin, read_meta, secret_of
from shared.errors import ConfigError
from shared.packing import pack_ids


def test_a_secret_depends_on_key_run_and_session_and_on_nothing_else() -> None:
    secrets = {secret_of(key, run, session) for key in "ab" for run in ("r1", "r2") for session in ("s1", "s2")}
    assert len(secrets) == 8
    assert secret_of("a", "r1", "s1") in secrets
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", s) for s in secrets)


def test_the_parent_is_the_longest_earlier_call() -> None:
    book = Book()
    for seq, full in enumerate(([1, 2], [1, 2, 3, 4], [9]), start=1):
        book.begin("s", seq)
        book.add("s", seq, pack_ids(full))
    book.begin("s", 4)
    assert book.origin("s", 4, pack_ids([1, 2, 3, 4, 5])) == Origin("extends", 2, 4)
    assert book.origin("s", 4, pack_ids([1, 2, 3])) == Origin("extends", 1, 2)
    assert book.origin("s", 4, pack_ids([7, 7])) == Origin("root")


def test_a_parent_is_unresolved_when_an_earlier_call_went_elsewhere() -> None:
    book = Book()
    book.begin("s", 1)
    book.add("s", 1, pack_ids([1]))
    book.begin("s", 3)
    assert book.origin("s", 3, pack_ids([1, 2])) == Origin("unresolved")
    assert book.origin("t", 2, pack_ids([1, 2])) == Origin("unresolved")


def test_only_the_sessions_used_last_are_kept() -> None:
    book = Book(size=2)
    for session in "abc":
        book.begin(session, 1)
        book.add(session, 1, pack_ids([1]))
    for session, expected in (("c", "extends"), ("a", "unresolved")):
        book.begin(session, 2)
        assert book.origin(session, 2, pack_ids([1, 2])).status == expected
    book.forget("c")
    assert book.origin("c", 3, pack_ids([1, 2])) == Origin("unresolved")


@pytest.mark.parametrize(
    "changes",
    [{"rollout_id": "a_b"}, {"group_id": ""}, {"attempt": 0}, {"purpose": "play"}, {"sampling": {"top_k": 1}}, {"x": 1},
     {"sampling": {"temperature": -1}}, {"sampling": {"top_p": 0}}, {"sampling": {"max_tokens": 0}}],
)  # fmt: skip
def test_metadata_that_is_not_acceptable_is_refused(changes: dict[str, object]) -> None:
    meta = {"rollout_id": "r", "attempt": 1, "group_id": "g", "purpose": "train"}
    assert read_meta(json.dumps(meta).encode()).rollout_id == "r"
    with pytest.raises(ConfigError):
        read_meta(json.dumps(meta | changes).encode())
