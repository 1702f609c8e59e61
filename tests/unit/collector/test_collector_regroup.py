"""A history rebuilt from its messages gives the groups that the collectors gave, byte for byte."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.collector.history import fold
from services.collector.regroup import Regrouped, close, regroup
from shared.config import CollectorConfig
from shared.events import GroupCompleted, Message, RolloutTimedOut, decode
from tests.unit.collector.rollouts import GROUP, Session, ended, sessions
from tests.unit.collector.worlds import World, failed, finished, scheduled, story, world


def everything(made: World) -> list[Message]:
    return [decode(d.data) for d in made.broker.kept]


def again(messages: list[Message], config: CollectorConfig) -> Regrouped:
    return regroup(fold(messages).groups[GROUP], config)


def timed_out(rollout: str, reward: float | None) -> RolloutTimedOut:
    return RolloutTimedOut(**ended(rollout), reward=reward, limit_s=1)


@st.composite
def rollouts(draw: st.DrawFn) -> list[Message]:
    """Four rollouts of any shape that end in any way."""
    messages: list[Message] = []
    for i in range(4):
        name, made = f"r{i}", draw(sessions(max_calls=4))
        made = Session(name, 1, [msgspec.structs.replace(r, rollout_id=name, session_id=f"{name}-a1") for r in made.records])
        reward = draw(st.sampled_from([0.0, 0.5, 1.0]))
        end = draw(st.sampled_from([
            finished(name, reward), timed_out(name, reward), timed_out(name, None), failed(name, sealed=True),
        ]))  # fmt: skip
        messages += [scheduled(name), *made.records, made.sealed(), end]
    return messages


@settings(max_examples=15, deadline=None)
@given(rollouts(), st.randoms(use_true_random=False), st.sampled_from(["discard", "zero", "mask"]), st.booleans())
def test_the_groups_of_any_history_are_made_again(
    messages: list[Message], rng: random.Random, policy: Any, strict: bool
) -> None:
    async def scenario() -> tuple[list[Message], CollectorConfig]:
        async with world(2, timeout_policy=policy, strict=strict) as made:
            await made.publish(*messages)
            await made.until_quiet()
            await made.until(lambda: made.groups)
            return everything(made), made.config

    kept, config = asyncio.run(scenario())
    rng.shuffle(kept)
    assert again(kept, config).verdict == "same"


async def test_a_group_that_was_closed_at_its_deadline_is_made_again_without_what_came_later() -> None:
    async with world(deadline_s=3.0) as made:
        await made.publish(*story("r0", 0.0), *story("r1", 1.0))
        await made.until(lambda: made.groups)
        await made.publish(*story("r2", 1.0), *story("r3", 1.0))
        await made.until_quiet()
        kept, config = everything(made), made.config
    rebuilt = again(kept, config)
    assert rebuilt.verdict == "same"
    assert isinstance(rebuilt.now, GroupCompleted)
    assert [t.rollout_id for t in rebuilt.now.trajectories] == ["r0", "r1"]
    assert rebuilt.now.outcomes == {"deadline": 2, "finished": 2}


async def test_another_policy_makes_another_group() -> None:
    late = Session("r1")
    late.call([1], [2, 2])
    async with world() as made:
        await made.publish(*story("r0", 1.0, group_size=2), *late.records, late.sealed(),
                           RolloutTimedOut(**ended("r1", group_size=2), reward=0.5, limit_s=1))  # fmt: skip
        await made.until(lambda: made.groups)
        kept, config = everything(made), made.config
    assert again(kept, config).verdict == "same"
    group = fold(kept).groups[GROUP]
    other = close(group, msgspec.structs.replace(config, timeout_policy="zero"), again(kept, config).by)
    assert isinstance(other, GroupCompleted)
    assert [(t.rollout_id, t.reward) for t in other.trajectories] == [("r0", 1.0), ("r1", 0.0)]


async def test_what_the_archive_lacks_is_named_and_is_no_difference() -> None:
    async with world() as made:
        await made.publish(*[m for i in range(4) for m in story(f"r{i}", i % 2)])
        await made.until(lambda: made.groups)
        kept, config = everything(made), made.config
    lost = [m for m in kept if m.event_id not in ("call-r1-a1-2", "sealed-r2-a1")]
    rebuilt = again(lost, config)
    assert rebuilt.verdict == "incomplete"
    assert rebuilt.gaps == ["r1 attempt 1: the records of calls [2]", "r2 attempt 1: the end of its session"]
    forged = [msgspec.structs.replace(m, reward=7.0) if m.event_id == "rollout-finished-r1-a1" else m for m in kept]
    assert again(forged, config).verdict == "differs"
    assert again([m for m in kept if not m.event_id.startswith("group-")], config).verdict == "open"


def test_a_call_that_was_recorded_twice_with_different_content_spoils_its_attempt() -> None:
    messages = [m for i in range(4) for m in story(f"r{i}", i % 2)]
    [call] = [m for m in messages if m.event_id == "call-r0-a1-1"]
    twin = msgspec.structs.replace(call, at=call.at + 1, latency_s=9.0)
    for order in ([*messages, twin], [twin, *messages]):
        attempt = fold(order).rollouts["r0"].attempts[1]
        assert (attempt.conflict, attempt.calls[1]) == ("1", call)
    made = close(fold([*messages, twin]).groups[GROUP], CollectorConfig(), float("inf"))
    assert made is None  # the attempt failed, and another may follow


@pytest.mark.parametrize("last", [1, 2])
def test_attempts_count_as_they_did(last: int) -> None:
    first = [scheduled("r1", 1, group_size=2), failed("r1", 1, group_size=2, final=last == 1)]
    messages = [*story("r0", 0.0, group_size=2), *first]
    messages += story("r1", 1.0, 2, group_size=2) if last == 2 else []
    made = close(fold(messages).groups[GROUP], CollectorConfig(), float("inf"))
    assert made is not None
    assert isinstance(made, GroupCompleted) == (last == 2)


async def test_a_rollout_that_was_refused_for_it_says_otherwise_of_its_group_is_left_out_again() -> None:
    messages = [m for i in range(2) for m in story(f"r{i}", i % 2, group_size=2)]
    stray = story("r-before-them-all", 1.0, group_size=2, task="another")
    async with world() as made:
        await made.publish(*messages[:-1], *stray, messages[-1])
        await made.until_quiet()
        await made.until(lambda: made.groups)
        kept, config = everything(made), made.config
    assert len(made.broker.dead) == 2
    assert again(kept, config).verdict == "same"
