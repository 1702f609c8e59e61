"""The collector over its bus and store: one message per group, whatever happens on the way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.bus.memory import MemoryBus
from shared.errors import BusUnavailable
from shared.events import (
    GroupCompleted,
    GroupDiscarded,
    Message,
    TokenCounts,
    Trajectory,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)
from shared.store.blobs import Blobs
from tests.unit.collector.rollouts import RUN, changed
from tests.unit.collector.worlds import Store, World, failed, finished, scheduled, session, story, world

WHOLE = [m for i in range(4) for m in story(f"r{i}", reward=i % 2)]
PAIR = [m for i in range(2) for m in story(f"r{i}", reward=i, group_size=2)]


@pytest.fixture(autouse=True, scope="module")
def impatience() -> Iterator[None]:
    """Retries of the outbox come soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.collector.service.RELAY_S", 0.05)
        yield


def check_complete(made: World, rollouts: int) -> None:
    (group,) = made.groups
    assert isinstance(group, GroupCompleted)
    assert [(t.rollout_id, t.reward, t.calls, len(t.rows)) for t in group.trajectories] == [
        (f"r{i}", i % 2, 2, 1) for i in range(rollouts)
    ]
    assert group.tokens == TokenCounts(sampled=3 * rollouts, trained=3 * rollouts)
    assert group.outcomes == {"finished": rollouts}
    assert len(made.trajectories) == rollouts


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_any_order_with_duplicates_and_several_collectors_give_one_group(rng: random.Random, workers: int) -> None:
    messages = WHOLE + rng.sample(WHOLE, 8)
    rng.shuffle(messages)

    async def scenario() -> None:
        async with world(workers) as made:
            await made.publish(*messages)
            await made.until_quiet()
            check_complete(made, 4)

    asyncio.run(scenario())


async def test_a_connection_that_breaks_after_any_step_changes_nothing() -> None:
    async with world() as made:
        await made.publish(*PAIR)
        await made.until_quiet()
        steps = made.workers[0].store.operations
    broken = 0
    for step in range(1, steps, 2):
        async with world(breaks_after=step) as made:
            await made.publish(*PAIR)
            await made.until_quiet()
            check_complete(made, 2)
            broken += made.workers[0].store.operations >= step
    assert broken > steps / 4


@pytest.mark.parametrize("operations", range(5, 100, 10))
async def test_another_collector_takes_up_the_work_of_one_that_was_killed(operations: int) -> None:
    async with world() as made:
        await made.publish(*WHOLE)
        await made.until(lambda: made.workers[0].store.operations >= operations)
        await made.workers[0].kill()
        await made.start()
        await made.until_quiet()
        check_complete(made, 4)


async def test_a_large_group_travels_by_reference() -> None:
    async with world(inline_bytes=100) as made:
        await made.publish(*WHOLE)
        await made.until_quiet()
        (group,) = made.groups
        assert isinstance(group, GroupCompleted)
        assert group.trajectories == []
        assert group.ref is not None
        body = await Blobs(Store(server=made.server), RUN).get(group.ref)
    assert [t.rollout_id for t in msgspec.json.decode(body, type=list[Trajectory])] == ["r0", "r1", "r2", "r3"]


async def test_the_trajectory_events_say_what_was_made() -> None:
    async with world() as made:
        await made.publish(*story("r1", 0.5))
        await made.until_quiet()
        (event,) = made.trajectories
    assert isinstance(event, TrajectoryAssembled)
    assert (event.reward, event.calls, event.rows, event.tokens) == (0.5, 2, 1, TokenCounts(sampled=3, trained=3))


# --- attempts that give nothing ----------------------------------------------------------------------------------------


def untrustworthy(rollout: str) -> list[Message]:
    """An attempt that ended well, but for a record that does not match its digest."""
    made = session(rollout)
    made.records[1] = changed(made.records[1], prompt_digest="00")
    return [*made.records, made.sealed(), finished(rollout, 1)]


async def test_records_that_cannot_be_trusted_are_told_and_the_next_attempt_counts() -> None:
    async with world() as made:
        await made.publish(*WHOLE[:15], *untrustworthy("r3"))
        await made.until(lambda: made.published(TrajectoryDiscarded))
        (told,) = made.published(TrajectoryDiscarded)
        assert isinstance(told, TrajectoryDiscarded)
        assert (told.reason, told.rollout_id, told.attempt) == ("FidelityError", "r3", 1)
        assert "digest" in told.detail
        assert told.tokens == TokenCounts(sampled=3, dropped=3, reasons={"FidelityError": 3})
        await made.publish(*story("r3", 1, attempt=2))
        await made.until_quiet()
        (group,) = made.groups
    assert isinstance(group, GroupCompleted)
    assert [t.attempt for t in group.trajectories] == [1, 1, 1, 2]
    assert group.tokens == TokenCounts(sampled=15, trained=12, dropped=3, reasons={"FidelityError": 3})


@pytest.mark.parametrize("early", [True, False])
async def test_a_rollout_may_be_given_up_after_its_last_attempt_was_settled(early: bool) -> None:
    last = failed("r3", reason="FidelityError")
    async with world() as made:
        await made.publish(*WHOLE[:15], *untrustworthy("r3"), *([last] if early else []))
        await made.until_quiet()
        if not early:
            assert made.groups == []
            await made.publish(last)
            await made.until_quiet()
        (group,) = made.groups
    assert isinstance(group, GroupCompleted)
    assert group.outcomes == {"finished": 3, "FidelityError": 1}
    assert group.tokens == TokenCounts(sampled=12, trained=9, dropped=3, reasons={"FidelityError": 3})


async def test_a_record_that_came_twice_with_different_content_is_not_trusted() -> None:
    first = session("r1")
    async with world() as made:
        await made.publish(*first.records, changed(first.records[0], model="other"), first.sealed())
        await made.until_quiet()
        await made.publish(finished("r1", 1))
        await made.until_quiet()
        (told,) = made.trajectories
    assert isinstance(told, TrajectoryDiscarded)
    assert told.reason == "FidelityError"
    assert "twice" in told.detail


async def test_a_failure_is_counted_once_all_its_calls_are_there_and_at_once_without_a_session() -> None:
    lost = session("r0")
    async with world() as made:
        await made.publish(failed("r0", sealed=True), *(failed(f"r{i}") for i in range(1, 4)), lost.records[1])
        await made.until_quiet()
        assert len(made.trajectories) == 3
        await made.publish(lost.sealed())
        await made.until_quiet()
        assert made.groups == []
        await made.publish(lost.records[0])
        await made.until_quiet()
        (group,) = made.groups
    assert isinstance(group, GroupDiscarded)
    assert (group.reason, group.outcomes) == ("too_few", {"SandboxError": 4})
    assert group.tokens == TokenCounts(sampled=3, dropped=3, reasons={"SandboxError": 3})


# --- groups that are late, and messages that are -----------------------------------------------------------------------


async def test_a_group_is_closed_at_its_deadline_and_what_comes_later_changes_nothing() -> None:
    async with world(deadline_s=0.05) as made:
        await made.publish(scheduled("r0"))
        await made.until(lambda: made.groups)
        await made.publish(*WHOLE)
        await made.until_quiet()
        (group,) = made.groups
        assert isinstance(group, GroupDiscarded)
        assert (group.reason, group.outcomes) == ("deadline", {"deadline": 4})
        late = made.trajectories
        assert [(t.reason, t.tokens.trained) for t in late if isinstance(t, TrajectoryDiscarded)] == [("late", 0)] * 4
        assert [t.tokens.reasons for t in late if isinstance(t, TrajectoryDiscarded)] == [{"late": 3}] * 4


async def test_a_call_after_its_attempt_was_settled_is_ignored_and_counted() -> None:
    more = session("r0")
    more.call([7], [8])
    async with world() as made:
        await made.publish(*WHOLE[:5])
        await made.until(lambda: made.trajectories)
        await made.until_quiet()
        await made.publish(more.records[2], more.records[2], WHOLE[1], *WHOLE[5:])
        await made.until_quiet()
        await made.publish(WHOLE[4], changed(WHOLE[4], reward=9.0))
        await made.until_quiet()
        assert made.workers[0].service.repeats == {
            "late call.recorded": 1, "same call.recorded": 2, "same rollout.finished": 1, "other rollout.finished": 1,
        }  # fmt: skip
        check_complete(made, 4)


class Flaky(MemoryBus):
    """A bus that does not take the first two messages of groups."""

    refusals = 2

    async def publish(self, message: Message) -> None:
        if isinstance(message, GroupCompleted) and self.refusals:
            self.refusals -= 1
            raise BusUnavailable("no acknowledgement")
        await super().publish(message)


async def test_a_group_waits_in_the_outbox_while_the_bus_is_away() -> None:
    async with world(workers=0) as made:
        await made.start(bus=Flaky)
        await made.publish(*WHOLE)
        await made.until_quiet()
        check_complete(made, 4)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (changed(session("r1").records[0], session_id="r1-a2"), "session r1-a2"),
        (changed(session("r1").records[0], seq=0), "Expected `int` >= 1 - at `$.seq`"),
        (finished("r1", 1, attempt=0), "Expected `int` >= 1 - at `$.attempt`"),
        (finished("r1", 1, group_size=0), "Expected `int` >= 1 - at `$.group_size`"),
        (finished("r1", 1, group_id="g.1"), "at `$.group_id`"),
        (finished("r" * 119, 1), "session id"),
    ],
)
async def test_a_message_that_contradicts_itself_is_a_dead_letter(message: Any, cause: str) -> None:
    async with world() as made:
        await made.publish(message)
        await made.until(lambda: made.broker.dead)
        assert cause in made.broker.dead[0].reason


async def test_stopping_twice_is_stopping() -> None:
    async with world() as made:
        await made.workers[0].service.stop()
        await made.workers[0].service.stop()


@pytest.mark.parametrize("odd", [{"task": "another"}, {"group_size": 3}, {"purpose": "eval"}], ids=str)
async def test_a_rollout_that_says_otherwise_of_its_group_is_refused_and_the_group_goes_on(odd: dict[str, Any]) -> None:
    stray = [scheduled("r9", **{"group_size": 2, **odd}), finished("r9", 9.0, **{"group_size": 2, **odd})]
    async with world() as made:
        await made.publish(PAIR[0], *stray, *PAIR[1:])
        await made.until_quiet()
        check_complete(made, 2)
        assert [(d.subject.rpartition(".")[2], "announced before" in d.reason) for d in made.broker.dead] == [("r9", True)] * 2
        await made.publish(*PAIR)
        await made.until_quiet()
        assert len(made.broker.dead) == 2


async def test_an_attempt_is_of_the_group_that_its_outcome_names_whatever_a_call_says() -> None:
    call, rest = changed(PAIR[1], group_id="another"), [m for m in PAIR if m is not PAIR[1]]
    async with world() as made:
        await made.publish(*rest)
        await made.until_quiet()
        await made.publish(call)
        await made.until_quiet()
        check_complete(made, 2)
