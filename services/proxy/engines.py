"""The engines that calls may go to. Which one a call goes to is decided where it is numbered, in the store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from services.proxy.errors import Unreachable
from services.proxy.teacher import TEACHERS, Teacher
from services.proxy.upstream import Engine
from shared.config import Config
from shared.errors import ConfigError, EngineError

T = TypeVar("T")


class Engines:
    """Clients of a run's engines, all of which serve the same model.

    Args:
        engines: by address.
        teacher: what they speak if they are no vLLM.
    """

    def __init__(self, engines: Mapping[str, Engine], teacher: Teacher | None = None) -> None:
        self._engines = dict(engines)
        self.teacher = teacher

    @property
    def addresses(self) -> list[str]:
        """Those of the engines, in their order."""
        return list(self._engines)

    def at(self, address: str) -> Engine:
        """The engine at an address.

        Raises:
            Unreachable: this run has none there, though the store has.
        """
        if address not in self._engines:
            raise Unreachable(f"the engine at {address} is none of engine.urls")
        return self._engines[address]

    async def ask_any(self, question: Callable[[Engine], Awaitable[T]]) -> T:
        """The answer of the first engine that can be reached, where it is all the same which.

        Raises:
            Refused: what the last one said, or that none is there.
        """
        *others, last = self._engines.values()
        for engine in others:
            try:
                return await question(engine)
            except Unreachable:
                continue
        return await question(last)

    async def check(self) -> None:
        """Raises EngineError unless one of the engines says that it can serve."""
        checks = await asyncio.gather(*(engine.check() for engine in self._engines.values()), return_exceptions=True)
        failed = [check for check in checks if isinstance(check, EngineError)]
        if len(failed) == len(checks):
            raise EngineError("; ".join(map(str, failed)))

    async def stop(self) -> None:
        """Closes the connections that nobody uses."""
        for engine in self._engines.values():
            await engine.stop()


def engines_of(config: Config) -> Engines:
    """The engines that a configuration names.

    Raises:
        ConfigError: a teacher's key is not there.
    """
    engine, timeout_s = config.engine, config.proxy.call_timeout_s
    teacher, key = None, ""
    if config.proxy.mode == "teacher":
        teacher = TEACHERS[engine.api]
        key = os.environ.get(engine.key_env, "") if engine.key_env else ""
        if engine.key_env and not key:
            raise ConfigError(
                f"engine.key_env: the environment variable {engine.key_env} is not set; put the teacher's key there"
            )
    made = {address: Engine(address, engine.served_name, timeout_s, teacher, key) for address in engine.addresses}
    if not made:
        raise ConfigError("engine.url is not set: the base URL of a running vLLM, without /v1")
    return Engines(made, teacher)
