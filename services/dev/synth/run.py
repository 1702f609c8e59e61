"""`openforge synth`: a stack for as long as tasks are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from services.dev.plan import Plan, make_plan
from services.dev.preflight import check_capacity, check_disk, check_model, check_ports, check_teacher
from services.dev.run import say_interrupted, unless_stack_fails
from services.dev.signals import until_signal
from services.dev.stack import Stack
from services.dev.synth.here import check_images, check_place, check_programs
from services.dev.synth.look import look
from services.dev.synth.needs import needs_model, services_of
from services.dev.synth.overview import Overview
from services.dev.synth.show import render
from services.dev.synth.watch import SynthView
from services.synth.books import Books
from services.synth.candidate import Candidate, held
from services.synth.gates import gates_of
from services.synth.makers import workers_of
from services.synth.model import Ended, Trial
from services.synth.models.ready import check_models
from services.synth.pool import TaskPool
from shared.bus import Bus
from shared.config import Config, RunConfig
from shared.errors import SandboxError
from shared.events import SynthStart

_LOOK_S = 0.5
_AHEAD = 2
"""Tasks that are asked for, for each that is worked on. Not all at once: tasks come to their end one by one, and what money or
time is left for is whole."""


class _NoTrials:
    """While it is looked whether all can be had, nothing is tried."""

    async def run(self, task_id: str, folder: Path, wanted: Sequence[Trial]) -> list[Ended]:
        """See `Trials.run`."""
        raise SandboxError("there is no sandbox yet")


def check_synth(config: Config) -> None:
    """All that making tasks needs, before anything is started.

    Raises:
        ConfigError, TaskError: something is missing; the text says what to do.
    """
    check_disk(config)
    check_ports(config)
    check_capacity(config)
    if needs_model(config):
        check_model(config)
        check_teacher(config)
    check_models(config)
    check_place(config)
    check_images(config)
    workers_of(config, _NoTrials())
    check_programs(config)
    gates_of(config)
    TaskPool(config, Books(config).accepted)


async def synthesise(config: Config) -> int:
    """Makes the tasks that are asked for, from where the run stands; returns 0 if all are through, 1 if some wait.

    Raises:
        ForgeError: something is missing, or ended the run before its end.
    """
    check_synth(config)
    plan = make_plan(config, services_of(config), engines=needs_model(config))
    view = SynthView(plan.config.run.id, str(plan.folder), lambda: look(plan.config), config.synth.count)
    return await until_signal(_make(plan, view), lambda: _say_how_to_go_on(view, plan))


async def _make(plan: Plan, view: SynthView) -> int:
    books = Books(plan.config)
    with view.show():
        view.note(f"{plan.config.synth.count} tasks are asked for; those that are accepted come into {books.accepted}")
        async with Stack(plan, view) as stack:
            await unless_stack_fails(stack.engine_ready(), stack)
            await unless_stack_fails(_drive(stack.bus, plan.config, books, view.look), stack)
    found = look(plan.config)
    Console(highlight=False).print(render(found, str(books.accepted)), soft_wrap=True)
    if _made_before(plan.config, found):
        view.console.print(
            "The same synth.seed makes the same tasks again; --set synth.seed=NUMBER makes others.", soft_wrap=True
        )
    if found.held:
        view.console.print(go_on_with(plan.config.run), highlight=False, soft_wrap=True)
    return 1 if found.held else 0


def _made_before(config: Config, found: Overview) -> bool:
    """Whether families made tasks that were there."""
    return config.synth.generator == "families" and any(one.reason == "exact-copy" for one in found.turned_down)


async def _drive(bus: Bus, config: Config, books: Books, looked: Callable[[], None]) -> None:
    """Asks for every task that is not through, a few ahead of those that are worked on, and waits until each is, or waits
    itself. Where one waits for what all others would, too, no more are asked for."""
    waiting = [number for number in range(config.synth.count) if not is_over(books.load(task_id_of(number)))]
    left: set[str] = set()
    while waiting or left:
        while waiting and len(left) < _AHEAD * config.synth.parallel:
            left.add(await _ask(bus, config, books, waiting.pop(0)))
        await asyncio.sleep(_LOOK_S)
        now = {task_id: books.load(task_id) for task_id in left}
        if any(task and task.held and task.shared for task in now.values()):
            waiting.clear()
        left = {task_id for task_id, task in now.items() if not is_over(task) and not (task and task.held)}
        looked()


async def _ask(bus: Bus, config: Config, books: Books, number: int) -> str:
    task = books.load(task_id := task_id_of(number))
    if task and task.held:
        books.save(held(task, ""))
    await bus.publish(SynthStart(run_id=config.run.id, task_id=task_id, number=number))
    return task_id


def is_over(task: Candidate | None) -> bool:
    """Whether nothing more is done with a task."""
    return task is not None and task.over


def task_id_of(number: int) -> str:
    """The id of the messages of a proposal's task."""
    return f"n{number:05}"


def go_on_with(run: RunConfig) -> str:
    """How a person goes on."""
    return f"To go on from where it stands: openforge synth resume {run.id} --root {run.root}"


def _say_how_to_go_on(view: SynthView, plan: Plan) -> None:
    say_interrupted(view, plan)
    view.console.print(go_on_with(plan.config.run), highlight=False, soft_wrap=True)
