"""Images travel to the engine as they are, and into the record by reference."""

from __future__ import annotations

import base64
import hashlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.media import place, strays
from shared.events import BlobRef, Media
from tests.unit.proxy.world import MakeWorld

PNG = b"\x89PNG not really"
PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}


@pytest.mark.parametrize("mode", ["record", "splice"])
async def test_an_image_is_kept_once_by_its_content(make_world: MakeWorld, mode: str) -> None:
    world = await make_world(mode=mode)
    base = await world.open()
    messages = [{"role": "user", "content": [{"type": "text", "text": "look"}, PART, PART]}]
    for _ in range(2):
        status, answer = await world.chat(base, messages)
        assert status == 200
        messages += [answer["choices"][0]["message"], {"role": "user", "content": "again"}]
    sha = hashlib.sha256(PNG).hexdigest()
    first, second = world.records
    assert world.engine.requests[0]["messages"] == messages[:1]
    assert [m.sha256 for m in first.media] == [sha, sha]
    kept = json.loads(bytes(first.messages[0]))["content"]
    assert [p.get("image_url") for p in kept] == [None, {"url": f"sha256:{sha}"}, {"url": f"sha256:{sha}"}]
    assert await world.blobs.get(BlobRef(key=sha, size=len(PNG), sha256=sha)) == PNG
    assert (second.media, second.messages_from) == ([], 1)
    assert (second.spliced, second.fork) == (False, "")
    assert PNG not in msgspec.json.encode(first)


@given(st.lists(st.tuples(st.lists(st.integers(0, 3)), st.integers(1, 4)), max_size=4), st.integers(0, 100))
def test_places_are_the_runs_of_placeholders(parts: list[tuple[list[int], int]], offset: int) -> None:
    ids: list[int] = []
    expected = []
    for n, (text, pads) in enumerate(parts):
        ids += [*text, 0]
        expected.append(Media(sha256=str(n), start=offset + len(ids), length=pads))
        ids += [9] * pads
    hashes = [m.sha256 for m in expected]
    assert place(hashes, ids, frozenset({9}), offset) == expected
    assert place(hashes[1:], ids, frozenset({9}), offset, ["other", *hashes[:1]]) == expected
    assert place(hashes, ids, frozenset(), offset) == [Media(sha256=h) for h in hashes]


@pytest.mark.parametrize(
    ("ids", "sampled", "found"),
    [
        ([1, 9, 9, 2], [3, 4], False),
        ([1, 9, 9, 2], [3, 9], True),  # sampled
        ([1, 9, 9, 2, 9], [3, 4], True),  # written out
        ([1, 2], [3, 4], False),
    ],
)
def test_a_placeholder_that_is_no_mediums_is_seen(ids: list[int], sampled: list[int], found: bool) -> None:
    tokens = frozenset({9})
    assert strays(ids, sampled, tokens, place(["a"] if 9 in ids else [], ids, tokens, 0)) is found
    assert strays(ids, [], tokens, []) is (9 in ids)
    assert not strays(ids, sampled, frozenset(), [Media(sha256="a")])
