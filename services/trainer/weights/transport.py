"""How weights get from the learner into an engine: through files that both can read, or from GPU to GPU."""

from __future__ import annotations

from typing import Protocol

from services.trainer.ports import Learner
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
    """Weights as files in a folder.

    Args:
        files: the folder.
        thread: of the learner.
    """

    keeps = True

    def __init__(self, files: WeightFiles, thread: LearnerThread) -> None:
        self._files = files
        self._thread = thread
        self._pushed: Pushed | None = None

    async def take(self, learner: Learner, version: int) -> str:
        self._pushed = await self._thread.run(self._files.write, version, learner.export)
        return str(self._files.path(self._pushed))

    async def send(self, replica: Replica) -> None:
        pushed = self._pushed
        if pushed is None:
            raise EngineError("there are no weights to send yet")
        await replica.engine.load(self._files.path(pushed), pushed.sha256, pushed.version)


def transport_of(tools: Tools) -> Transport:
    """The transport that the configuration asks for."""
    push = tools.config.trainer.push
    if push.transport == "nccl":
        from services.trainer.weights.nccl import NcclTransport

        return NcclTransport(push, tools.thread)
    return FileTransport(WeightFiles(tools.files.weights / "push", push.keep), tools.thread)
