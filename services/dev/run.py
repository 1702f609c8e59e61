"""`openforge run` and `openforge dev`: a stack for the length of a training run, or until Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from rich.console import Console

from services.dev.ends import carried_out, print_summary
from services.dev.plan import Plan, make_plan
from services.dev.preflight import check_run, check_stack
from services.dev.resume import go_on_with
from services.dev.signals import until_signal
from services.dev.stack import Stack
from services.dev.view import View
from shared.config import Config
from shared.errors import ForgeError

T = TypeVar("T")


async def train(config: Config) -> int:
    """Runs the configured training from beginning to end; returns the exit status.

    Raises:
        ForgeError: something ended the run before its end.
    """
    check_run(config)
    plan = make_plan(config)
    view = View(plan.config.run.id, str(plan.folder))
    return await until_signal(_train(plan, view), lambda: _say_how_to_go_on(view, plan))


async def develop(config: Config) -> int:
    """Keeps a stack up until Ctrl-C; returns the exit status.

    Raises:
        ForgeError: a process could not be kept alive.
    """
    check_stack(config)
    plan = make_plan(config)
    view = View(plan.config.run.id, str(plan.folder))
    return await until_signal(_develop(plan, view), lambda: say_interrupted(view, plan))


async def unless_stack_fails(work: Coroutine[Any, Any, T], stack: Stack) -> T:
    """The result of `work`.

    Raises:
        ForgeError: a process of the stack ended for good before that.
    """
    task = asyncio.create_task(work)
    either: set[asyncio.Future[Any]] = {task, stack.supervisor.failed}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise stack.supervisor.failed.result()
        return task.result()
    finally:
        task.cancel()


def say_interrupted(view: View, plan: Plan) -> None:
    """Says where things are after Ctrl-C."""
    view.console.print(f"ended by a signal; every process was stopped. What there is so far: {plan.folder}", highlight=False)


def _say_how_to_go_on(view: View, plan: Plan) -> None:
    say_interrupted(view, plan)
    view.console.print(go_on_with(plan.config.run), highlight=False, soft_wrap=True)


async def _train(plan: Plan, view: View) -> int:
    with view.show():
        async with Stack(plan, view) as stack:
            try:
                finished = await unless_stack_fails(carried_out(stack.bus, plan.config.run.id), stack)
            except ForgeError:
                view.note(go_on_with(plan.config.run))
                raise
    print_summary(Console(), finished, str(plan.folder))
    if not finished.ok:
        view.console.print(go_on_with(plan.config.run), highlight=False, soft_wrap=True)
    return 0 if finished.ok else 1


async def _develop(plan: Plan, view: View) -> int:
    with view.show():
        async with Stack(plan, view) as stack:
            await unless_stack_fails(_idle(stack, view), stack)
    return 0


async def _idle(stack: Stack, view: View) -> None:
    await stack.engine_ready()
    proxy, engines = stack.config.proxy, " ".join(stack.config.engine.addresses)
    view.note(f"the stack is up: proxy http://{proxy.host}:{proxy.port}, engine {engines}")
    view.note("in another terminal: openforge rollout TASK_DIR, openforge tap; Ctrl-C here ends everything")
    await asyncio.Event().wait()
