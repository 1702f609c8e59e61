"""What a proxy knows of a session's calls: their exact ids again, and all of it from records alone."""

from __future__ import annotations

import msgspec
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from services.proxy.known import Book, Known, Session, ids_json
from services.proxy.paths import nodes
from shared.packing import digest_packed, pack_ids

START = bytes(16)
ids = st.lists(st.integers(0, 2**32 - 1), max_size=6)


def known(session: Session, seq: int, parent: int | None, delta: list[int]) -> Known:
    packed, digest = pack_ids(delta), session.digest(parent)
    digest.update(packed)
    length = len(delta) + (session.calls[parent].length if parent else 0)
    return Known(seq, parent, length, packed, ids_json(packed), digest, None)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), ids), min_size=1, max_size=8))
def test_ids_come_back_exactly_along_any_tree(calls: list[tuple[int, list[int]]]) -> None:
    session = Session()
    fulls: dict[int, list[int]] = {}
    for seq, (parent, delta) in enumerate(calls, start=1):
        up = parent if parent in fulls else None
        fulls[seq] = fulls.get(up or 0, []) + delta
        session.add(known(session, seq, up, delta), bytes([seq]))
    for seq, full in fulls.items():
        assert session.full(seq) == pack_ids(full)
        assert session.full_json(seq) == ids_json(pack_ids(full))
        assert session.digest(seq).hexdigest() == digest_packed(pack_ids(full))


def test_only_numbers_that_nobody_told_of_are_missed() -> None:
    session = Session()
    for seq in (1, 2, 4):
        session.note(seq)
    assert not session.misses(3)
    assert session.misses(4)
    session.note(3)
    assert not session.misses(5)


def test_sessions_used_last_are_kept_and_the_largest_limit_holds() -> None:
    book = Book(sessions=2, size=1000)
    first = book.session("a")
    first.size = 600
    book.grew("a")
    book.session("b").size = 300
    book.grew("b")
    assert book.session("a") is first
    book.session("c").size = 200
    book.grew("c")  # three are too many: b was used least
    assert book.session("a") is first
    assert book.session("b").size == 0
    book.forget("a")
    assert book.session("a") is not first


def test_what_a_session_is_counted_for_is_what_it_takes_when_it_goes() -> None:
    book, messages = Book(sessions=10, size=100_000), [message(b"x" * n) for n in range(50)]
    for name in ("a", "b"):
        for told in (messages, messages[:10], messages[:40]):  # what was told last is kept
            book.session(name).walk(START, told)
        book.grew(name)
    size = book.session("a").size
    assert size == book.session("b").size
    assert sum(map(len, map(bytes, messages[:40]))) < size < sum(map(len, map(bytes, messages[:40]))) + 40 * 300
    book.forget("a")
    book.forget("b")
    assert book._size == 0


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([1, 2, 280_000]), max_size=4), max_size=6))
def test_a_walk_is_the_same_whatever_was_walked_before(conversations: list[list[int]]) -> None:
    session = Session()
    for lengths in conversations:
        messages = [message(b"a" * length) for length in lengths]
        assert session.walk(START, messages) == nodes(START, messages)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), ids), min_size=1, max_size=4), ids)
def test_a_call_ends_in_a_longer_prompt_where_its_ids_do(calls: list[tuple[int, list[int]]], more: list[int]) -> None:
    session, fulls = Session(), dict[int, list[int]]()
    for seq, (parent, delta) in enumerate(calls, start=1):
        up = parent if parent in fulls else None
        fulls[seq] = fulls.get(up or 0, [1]) + delta
        session.add(known(session, seq, up, delta if up else [1, *delta]), bytes([seq]))
    for seq, full in fulls.items():
        for prompt in (more, full, full + more):
            text, extends = orjson.dumps(prompt), len(prompt) > len(full) and prompt[: len(full)] == full
            end = session.end(seq, text)
            assert bool(end) == extends
            assert not extends or orjson.loads(b"[" + text[end:]) == prompt[len(full) :]


def message(content: bytes) -> msgspec.Raw:
    return msgspec.Raw(b'{"role":"user","content":"%b"}' % content)
