"""A store that is wiped in mid-run: every group is closed exactly once, with all that had arrived."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import fakeredis
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.events import GroupCompleted, Message, TokenCounts, Trajectory
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from tests.unit.collector.rollouts import RUN
from tests.unit.collector.worlds import Store, World, story, world

GROUPS = [f"g{n}" for n in range(3)]
STORIES = {g: [m for i in range(4) for m in story(f"{g}-r{i}", reward=i % 2, group_id=g)] for g in GROUPS}
ALL = [m for messages in STORIES.values() for m in messages]


@pytest.fixture(autouse=True, scope="module")
def impatience() -> Iterator[None]:
    """The store is looked at often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.collector.service.RELAY_S", 0.02)
        yield


def wipe(made: World) -> None:
    fakeredis.FakeStrictRedis(server=made.server).flushall()


def check(made: World) -> None:
    assert sorted(g.group_id for g in made.groups) == GROUPS
    for group in made.groups:
        assert isinstance(group, GroupCompleted)
        assert [t.calls for t in group.trajectories] == [2] * 4
        assert group.tokens == TokenCounts(sampled=12, trained=12)


@settings(max_examples=8, deadline=None)
@given(
    order=st.randoms(use_true_random=False),
    wipes=st.lists(st.integers(1, len(ALL) + 4), min_size=1, max_size=3, unique=True),
    workers=st.integers(1, 3),
    at_rest=st.booleans(),
)
def test_whenever_it_is_wiped_each_group_is_closed_once(
    order: random.Random, wipes: list[int], workers: int, at_rest: bool
) -> None:
    messages = ALL + order.sample(ALL, 5)
    order.shuffle(messages)

    async def scenario() -> None:
        async with world(workers) as made:
            for n, message in enumerate(messages):
                if n in wipes:
                    if at_rest:
                        await made.until_quiet()
                    wipe(made)
                await made.publish(message)
            await made.until(lambda: len(made.groups) == len(GROUPS))
            await made.until_quiet()
            check(made)

    asyncio.run(scenario())


@pytest.mark.parametrize("operations", range(5, 400, 40))
@pytest.mark.slow
async def test_wiped_at_any_step_of_a_collector_nothing_is_lost_or_doubled(operations: int) -> None:
    async with world(2) as made:
        await made.publish(*ALL)
        await made.until(lambda: made.workers[0].store.operations >= operations)
        wipe(made)
        await made.until(lambda: len(made.groups) == len(GROUPS))
        await made.until_quiet()
        check(made)


async def test_a_wipe_is_noticed_without_any_message() -> None:
    unfinished = [m for m in ALL if m is not ALL[-1]]
    async with world() as made:
        await made.publish(*unfinished)
        await made.until_quiet()
        wipe(made)
        await made.until(lambda: made.restored)
        await made.publish(ALL[-1])
        await made.until(lambda: len(made.groups) == len(GROUPS))
        check(made)


async def test_a_collector_that_starts_on_an_empty_store_takes_up_the_run() -> None:
    async with world() as made:
        await made.publish(*ALL[:-1])
        await made.until_quiet()
        await made.workers[0].kill()
        wipe(made)
        await made.start()
        await made.publish(ALL[-1])
        await made.until(lambda: len(made.groups) == len(GROUPS))
        check(made)


async def test_a_group_that_was_published_is_not_opened_again_by_what_comes_late() -> None:
    async with world() as made:
        await made.publish(*ALL)
        await made.until(lambda: len(made.groups) == len(GROUPS))
        wipe(made)
        await made.until(lambda: made.restored)
        await made.publish(*ALL)
        await made.until_quiet()
        check(made)


async def test_the_body_of_a_group_by_reference_is_put_back_and_its_message_not_repeated() -> None:
    async with world(inline_bytes=100) as made:
        await made.publish(*STORIES["g0"])
        await made.until(lambda: made.groups)
        (group,) = made.groups
        assert isinstance(group, GroupCompleted)
        assert group.ref is not None
        wipe(made)
        body = await Blobs(Store(server=made.server), RUN).get(group.ref)
        await made.until_quiet()
        assert made.groups == [group]
    assert [t.rollout_id for t in msgspec.json.decode(body, type=list[Trajectory])] == [f"g0-r{n}" for n in range(4)]


async def test_what_nobody_can_handle_does_not_stop_the_rebuilding() -> None:
    bad: Message = msgspec.structs.replace(ALL[1], session_id="another")
    async with world() as made:
        await made.publish(*STORIES["g0"][:-1], bad)
        await made.until_quiet()
        wipe(made)
        await made.publish(STORIES["g0"][-1])
        await made.until(lambda: made.groups)
    assert len(made.broker.dead) == 1


async def test_when_the_one_that_rebuilds_dies_another_takes_over() -> None:
    async with world() as made:
        await made.publish(*ALL[:-1])
        await made.until_quiet()
        wipe(made)
        await Assembly(Store(server=made.server), RUN, lease_s=1).epoch.claim("one that dies")
        await made.publish(ALL[-1])
        await made.until(lambda: len(made.groups) == len(GROUPS))
        check(made)
