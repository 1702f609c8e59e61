"""Rollouts over two proxies that are killed again and again: what a harness got is recorded, and what was lost is known."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiohttp
import msgspec
import pytest

from services.collector.assemble import assemble
from services.collector.calls import restore
from shared.events import CallRecorded, SessionSealed
from shared.packing import pack_ids, unpack_ids
from tests.e2e.fleet import Fleet, fleet
from tests.e2e.talkers import Talker, Whole
from tests.engine import bytes_tokenizer as tokenizer
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

ROLLOUTS, KILLS = 16, 3
RULES: list[dict[str, Any]] = [
    {"contains": "say", "text": "reply {number}, in so many words", "token_delay_s": 0.04},
    {"delay_s": 0.5},
]
"""Replies take their time, so that a kill meets many of them."""


@dataclass(frozen=True, slots=True)
class Left:
    """What one rollout left behind."""

    talker: Talker
    records: list[CallRecorded]
    sealed: SessionSealed


@pytest.mark.parametrize("mode", ["splice", "record"])
async def test_killed_proxies_lose_nothing_that_was_delivered_and_own_up_to_the_rest(
    tmp_path: Path, mode: Literal["splice", "record"]
) -> None:
    async with fleet(tmp_path, mode, RULES) as proxies, aiohttp.ClientSession() as http:
        talkers = [await make_talker(proxies, n, http) for n in range(ROLLOUTS)]
        await talk_and_kill(proxies, talkers)
        left = [await collect(proxies, talker) for talker in talkers]
        calls = proxies.engine_calls()
    for rollout in left:
        check_replies(rollout)
        check_numbers(rollout)
        check_assembly(rollout)
        check_lineage(rollout.records, mode)
    check_engine(calls, left)
    assert sum(talker.failed for talker in talkers) >= KILLS  # or the kills were in no traffic
    assert any(rollout.sealed.lost for rollout in left)


async def make_talker(proxies: Fleet, number: int, http: aiohttp.ClientSession) -> Talker:
    session_id = f"rollout{number:02}-a1"
    path = await proxies.open(session_id)
    urls = [proxy.url + path for proxy in proxies.proxies]
    return Talker(session_id, urls[:: 1 if number % 2 else -1], "anthropic" if number % 4 < 2 else "chat", number % 8 < 4, http)


async def talk_and_kill(proxies: Fleet, talkers: list[Talker]) -> None:
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for talker in talkers:
            group.create_task(talker.talk(enough))
        for proxy in proxies.proxies * KILLS:
            before = sum(len(t.got) for t in talkers)
            await until(lambda before=before: sum(len(t.got) for t in talkers) >= before + ROLLOUTS, 60)  # type: ignore[misc]
            await proxy.kill()
            await proxy.start()
        enough.set()


async def collect(proxies: Fleet, talker: Talker) -> Left:
    sealed = await proxies.seal(talker.session_id)
    return Left(talker, await proxies.records(talker.session_id), sealed)


def check_replies(left: Left) -> None:
    """Every reply that came whole has exactly one record, in full; one that says the same as others has one at least."""
    recorded = Counter(_said(r) for r in left.records if r.finish_reason is not None)
    for said, times in Counter(_key(whole) for whole in left.talker.got).items():
        unique = said[0].startswith("reply ")
        assert times <= recorded[said], f"{left.talker.session_id}: {said} was delivered and is not on record"
        assert not unique or recorded[said] == 1


def _said(record: CallRecorded) -> tuple[str, tuple[bytes, ...]]:
    calls = tuple(msgspec.json.decode(c["function"]["arguments"]) for c in record.reply.get("tool_calls", ()))
    return _key(Whole(record.reply["content"], calls))


def _key(whole: Whole) -> tuple[str, tuple[bytes, ...]]:
    return whole.text, tuple(msgspec.json.encode(c, order="sorted") for c in whole.calls)


def check_numbers(left: Left) -> None:
    """Every number is accounted for, none twice."""
    numbers = [r.seq for r in left.records]
    assert len(set(numbers)) == len(numbers)
    sealed = left.sealed
    assert {*numbers, *sealed.errored, *sealed.lost} == set(range(1, sealed.calls + 1))
    assert not {*numbers} & {*sealed.errored}
    assert sealed.calls <= len(left.talker.got) + left.talker.failed


def check_assembly(left: Left) -> None:
    """Records fit together; a rollout that lost nothing can be trained on."""
    restore(left.records)
    if not left.sealed.lost:
        assembled = assemble(left.records, left.sealed, max_row_tokens=1_000_000)
        assert assembled.rows


def check_lineage(records: list[CallRecorded], mode: str) -> None:
    """A kill forks nothing: what goes on from a call extends it, and what does not is the beginning of a conversation. (What
    the harness writes anew is only kept as it was in splice mode.)"""
    for record in records:
        if record.messages_from is None:
            assert (record.parent_seq, len(record.messages)) == (None, 1)
            assert record.fork in ("", "new_context")
        elif mode == "splice" or record.fork != "template_moves":
            assert (record.parent_seq, record.fork) == (record.messages_from, "")
        assert record.spliced == (mode == "splice" and record.messages_from is not None)


def check_engine(calls: list[dict[str, Any]], left: list[Left]) -> None:
    """What the engine sampled to the end is on record, or its rollout is marked; so is what was broken off."""
    by_id = {rollout.talker.session_id: rollout for rollout in left}
    recorded = Counter(
        (rollout.talker.session_id, bytes(call.prompt), call.record.completion)
        for rollout in left
        for call in restore(rollout.records)
        if call.record.finish_reason is not None
    )
    sampled: Counter[tuple[str, bytes, bytes]] = Counter()
    for call in calls:
        found = re.search(r"rollout\d\d-a1", tokenizer.decode(call["prompt_token_ids"]))
        assert found is not None
        rollout, ids = by_id[found[0]], call["token_ids"]
        if call["finish_reason"] == "abort":
            assert not ids or rollout.sealed.lost or rollout.sealed.cut
            continue
        key = (found[0], pack_ids(call["prompt_token_ids"]), pack_ids(ids))
        sampled[key] += 1
        assert recorded[key] or rollout.sealed.lost, f"{found[0]}: a reply was sampled, is on no record, and nothing is marked"
    assert recorded <= sampled  # no record that is not a call
    assert all(unpack_ids(completion) for _, _, completion in recorded)
