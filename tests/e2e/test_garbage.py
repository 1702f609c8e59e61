"""Bad messages by the hundred on every subject of a stack at work: rollouts end well, services live on, none is lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from shared.bus import DeadLetter
from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutFinished,
    TrajectoryAssembled,
    TrajectoryDiscarded,
    encode,
)
from shared.subjects import matches, subject_of
from tests.e2e.stacks import LiveStack, live_stack, openforge, write_config
from tests.e2e.test_stack_rollouts import GROUPS, SIZE, closed, start_groups, watch, write_task
from tests.garbage import everything, strays
from tests.waiting import eventually, until

COUNT = 300
pytestmark = pytest.mark.timeout(240)
LARGE = 8 * 1024 * 1024
SERVICES = ("proxy", "orchestrator", "collector", "trainer", "synth")


async def test_a_stack_that_garbage_is_thrown_at(tmp_path: Path) -> None:
    task = write_task(tmp_path, "write", "sleep 0.2; cat seed.txt > out.txt", "seed")
    async with live_stack(write_config(tmp_path, "[orchestrator]\nconcurrency = 4\n[synth]\nenabled = true\n")) as stack:
        seen: list[Message] = []
        tap = asyncio.create_task(watch(stack, seen))
        before = {name: stack.service(name).pid for name in SERVICES}
        client = await nats.connect(stack.config.bus.url, nkeys_seed=f"{stack.config.bus.keys}/operator.nk")
        groups = await start_groups(stack, task)
        await until(lambda: any(isinstance(m, CallRecorded) for m in seen), 90)
        thrown = await throw(client, garbage(stack.config.run.id))
        await until(lambda: closed(seen) >= groups, 90)
        await repeat_late(client, seen)
        await eventually(lambda: settled(client), 60)
        letters = await stack.bus.dead_letters()
        assert {name: stack.service(name).pid for name in SERVICES} == before
        check_letters(letters, thrown)
        check_rollouts(seen, groups)
        await check_commands(stack, len(letters))
        await client.close()
        tap.cancel()


def garbage(run_id: str) -> list[tuple[str, bytes]]:
    """Subjects and bodies: some of everything that is bad, one on each subject of no type, some that are too large."""
    bad = [(subject, body) for _, subject, body in everything(run_id)]
    chosen = random.Random(7).sample(bad, COUNT)
    large = {subject.rpartition(".")[0]: subject for subject, _ in bad}
    unknown = [(subject, b"{}") for subject in strays(run_id)]
    return chosen + unknown + [(subject, b"x" * LARGE) for subject in list(large.values())[::8]]


async def throw(client: Client, messages: Iterable[tuple[str, bytes]]) -> Counter[str]:
    """Publishes messages; gives how many of them each stream's subject took."""
    thrown: Counter[str] = Counter()
    for subject, body in messages:
        await client.jetstream().publish(subject, body, timeout=60)
        thrown[subject] += 1
    return thrown


async def repeat_late(client: Client, seen: Iterable[Message]) -> None:
    """Publishes under new ids what was handled long ago: the same once more, and the same with other content."""
    done = [m for m in seen if isinstance(m, CallRecorded | RolloutFinished)]
    for message in done:
        await client.jetstream().publish(subject_of(message), encode(message))
    for message in done[:10]:
        other = json.loads(encode(message)) | {"at": 1.0}
        await client.jetstream().publish(subject_of(message), json.dumps(other).encode())


async def settled(client: Client) -> bool:
    """Whether every consumer has an end of every message."""
    js = client.jetstream()
    for stream in ("FORGE-CALLS", "FORGE-EVENTS", "FORGE-COMMANDS", "FORGE-GROUPS"):
        for consumer in await js.consumers_info(stream):
            if consumer.num_pending or consumer.num_ack_pending:
                return False
    return True


def check_letters(letters: list[DeadLetter], thrown: Counter[str]) -> None:
    """Each bad message is a dead letter of everyone who listens on its subject, and says why."""
    assert all(letter.reason for letter in letters)
    kept = {letter.subject for letter in letters}
    assert kept >= set(thrown)
    per_consumer = Counter((letter.subject, letter.consumer) for letter in letters)
    for (subject, _), count in per_consumer.items():
        assert count >= thrown[subject]
    late = [x for x in letters if x.subject not in thrown]
    assert {("call.recorded" in x.subject, "with different content" in x.reason) for x in late} <= {(True, True)}


def check_rollouts(seen: list[Message], groups: set[str]) -> None:
    """Every rollout counted once, with its reward, in its own group."""
    ended = [m for m in seen if isinstance(m, GroupCompleted | GroupDiscarded) and m.group_id in groups]
    assert Counter(m.group_id for m in ended) == dict.fromkeys(groups, 1)
    assert {json.dumps(m.outcomes) for m in ended} == {json.dumps({"finished": SIZE})}
    made = [m for m in seen if isinstance(m, TrajectoryAssembled) and m.group_id in groups]
    assert len({m.rollout_id for m in made}) == len({m.event_id for m in made}) == GROUPS * SIZE
    assert {m.reward for m in made} == {1.0}
    assert not [m for m in seen if isinstance(m, TrajectoryDiscarded) and m.group_id in groups]


async def check_commands(stack: LiveStack, count: int) -> None:
    """`openforge deadletters` lists, shows, replays and drops them."""
    root = ("--root", stack.config.run.root)
    code, out = await openforge("deadletters", "--json", *root)
    assert code == 0, out
    listed = [json.loads(line) for line in out.splitlines()]
    assert len(listed) == count
    small = [x for x in listed if x["size"] < 1000 and matches("forge.v1.cmd.>", x["subject"])]
    first, second = (str(x["id"]) for x in small[:2])
    code, out = await openforge("deadletters", "show", first, *root)
    assert code == 0, out
    assert small[0]["reason"] in out
    code, out = await openforge("deadletters", "drop", first, *root)
    assert code == 0, out
    code, out = await openforge("deadletters", "replay", second, *root)
    assert code == 0, out
    assert "published again" in out
    await eventually(lambda: numbers(stack, count - 1), 30)
    code, out = await openforge("deadletters", "replay", first, *root)
    assert code == 2
    assert f"there is no dead letter {first}" in out


async def numbers(stack: LiveStack, count: int) -> bool:
    return len(await stack.bus.dead_letters()) == count
