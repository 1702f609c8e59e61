"""How weights get from the learner into an engine: through files that both can read, or from GPU to GPU."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from services.trainer.ports import Learner, Part
from services.trainer.thread import LearnerThread
from services.trainer.tools import Tools
from services.trainer.weights.fleet import Replica
from services.trainer.weights.pushed import Pushed, WeightFiles
from shared.errors import EngineError


class Transport(Protocol):
    """Carries one version after another.

    Attributes:
        keeps: what was taken can be sent again later, to an engine that was away.
    """

    keeps: bool

    async def take(self, learner: Learner, version: int) -> str:
        """Gets a learner's weights ready to be sent, as a version; says where they are, as a person would look for them.

        Raises:
            ConfigError: there is no room for them.
        """
        ...

    async def send(self, replica: Replica) -> None:
        """Loads what was taken last into an engine, which samples nothing meanwhile and goes on whatever happens.

        Raises:
            EngineError: it does not answer, or refused.
        """
        ...


class FileTransport:
    """Weights as files in a folder. A learner of adapters has all else written once, and each version has the adapters alone.

    Args:
        files: the folder.
        thread: of the learner.
        adapters: the learner trains those.
    """

    keeps = True

    def __init__(self, files: WeightFiles, thread: LearnerThread, *, adapters: bool = False) -> None:
        self._files = files
        self._thread = thread
        self._part: Part = "adapters" if adapters else "whole"
        self._base: Pushed | None = None
        self._pushed: Pushed | None = None

    async def take(self, learner: Learner, version: int) -> str:
        if self._part == "adapters" and self._base is None:
            self._base = await self._thread.run(self._files.write_base, partial(learner.export, part="base"))
        self._pushed = await self._thread.run(self._files.write, version, partial(learner.export, part=self._part))
        return str(self._files.path(self._pushed))

    async def send(self, replica: Replica) -> None:
        pushed = self._pushed
        if pushed is None:
            raise EngineError("there are no weights to send yet")
        base = (self._files.path(self._base), self._base.sha256) if self._base else None
        await replica.engine.load(self._files.path(pushed), pushed.sha256, pushed.version, base)


def transport_of(tools: Tools) -> Transport:
    """The transport that the configuration asks for."""
    push = tools.config.trainer.push
    if push.transport == "nccl":
        from services.trainer.weights.nccl import NcclTransport

        return NcclTransport(push, tools.thread)
    adapters = tools.config.trainer.lora.lora_rank > 0
    return FileTransport(WeightFiles(tools.files.weights / "push", push.keep), tools.thread, adapters=adapters)
