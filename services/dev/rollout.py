"""`openforge rollout`: a task run once or several times, on a stack that runs or on one for the occasion."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from services.app import open_bus
from services.dev.lines import describe_reply
from services.dev.plan import make_plan
from services.dev.preflight import check_stack
from services.dev.run import say_interrupted, unless_stack_fails
from services.dev.signals import until_signal
from services.dev.stack import Stack, find_running
from services.dev.view import View
from shared.bus import Bus, Tapped
from shared.config import Config
from shared.errors import ConfigError
from shared.events import CallRecorded, Message, RolloutFailed, RolloutFinished, RolloutStart, RolloutStarted, RolloutTimedOut
from shared.keys import CLI
from shared.subjects import tap_pattern
from shared.task import load_task


@dataclass(frozen=True, slots=True)
class Wish:
    """What to run: a task folder, the harness's name, how often."""

    task_dir: Path
    harness: str
    count: int


async def rollout(config: Config | None, root: Path, wish: Wish) -> int:
    """Runs the rollouts and prints what happens; returns 0 if each got a reward.

    Args:
        config: of the stack to start; None uses the newest that runs under `root`.

    Raises:
        ForgeError: the task is unusable, no stack runs, or the stack failed.
    """
    load_task(wish.task_dir)
    if config is None:
        return await _attached(root, wish)
    check_stack(config)
    plan = make_plan(config, ("proxy", "orchestrator", "collector"))
    view = View(plan.config.run.id, str(plan.folder))

    async def work() -> int:
        async with Stack(plan, view) as stack:
            view.note("waiting for the engine")
            await unless_stack_fails(stack.engine_ready(), stack)
            return await unless_stack_fails(_follow(stack.bus, plan.config, wish), stack)

    return await until_signal(work(), lambda: say_interrupted(view, plan))


async def _attached(root: Path, wish: Wish) -> int:
    try:
        config, running = find_running(root)
    except ConfigError as e:
        raise ConfigError(f"{e}, or pass --config CONFIG to start one for this rollout") from None
    os.environ.update(running.env)
    bus = await open_bus(config, CLI)
    try:
        return await until_signal(_follow(bus, config, wish), lambda: None)
    finally:
        await bus.close()


async def _follow(bus: Bus, config: Config, wish: Wish) -> int:
    run, group = config.run.id, f"{config.run.id}-cli-{secrets.token_hex(2)}"
    ids = [f"{group}-r{i + 1}" for i in range(wish.count)]
    taps = bus.tap(tap_pattern("evt", run))
    ended = asyncio.create_task(_print_until_ended(taps, set(ids)))
    await asyncio.sleep(0)
    for rollout_id in ids:
        start = RolloutStart(
            run_id=run, rollout_id=rollout_id, group_id=group, group_size=wish.count, purpose="eval",
            task_dir=str(wish.task_dir.resolve()), harness=wish.harness,
        )  # fmt: skip
        await bus.publish(start)
    return await ended


async def _print_until_ended(taps: AsyncIterator[Tapped], ids: set[str]) -> int:
    console, left, scored = Console(), set(ids), 0
    async for tapped in taps:
        message = tapped.message
        if getattr(message, "rollout_id", None) not in ids or message is None:
            continue
        if line := _line(message):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if isinstance(message, RolloutFinished | RolloutTimedOut) or (isinstance(message, RolloutFailed) and message.final):
            left.discard(message.rollout_id)
            scored += isinstance(message, RolloutFinished)
        if not left:
            break
    return 0 if scored == len(ids) else 1


def _line(message: Message) -> str:
    match message:
        case RolloutStarted():
            return f"{message.rollout_id}  started in a sandbox: {message.sandbox}"
        case CallRecorded():
            return (
                f"{message.rollout_id}  call {message.seq}: {message.prompt_len} prompt tokens, "
                f"{len(message.completion) // 4} sampled, {message.finish_reason}  {describe_reply(message.reply)}"
            )
        case RolloutFinished():
            return f"{message.rollout_id}  reward {message.reward:g} after {message.agent_s:.2f} s"
        case RolloutTimedOut():
            return f"{message.rollout_id}  timed out after {message.limit_s:g} s"
        case RolloutFailed():
            return f"{message.rollout_id}  attempt {message.attempt} failed: {message.reason}: {message.detail}"
    return ""
