"""The ranks of a learner as one worker: what is asked of it, all of them do; a batch is cut among them."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from services.trainer.ports import Part
from services.trainer.ranks.child import serve
from shared.errors import ForgeError

_END_S = 5.0
_SHUTDOWN = "the learner's ranks were ended"


class RankGroup:
    """Ranks in processes of their own.

    A rank that dies or fails takes the others with it, since they would wait for it for ever: every call from then on raises.

    Args:
        make: makes the worker of a rank, a veRL `TrainingWorker`; can be pickled.
        ranks: how many.

    Raises:
        ForgeError: one of them did not come up.
    """

    def __init__(self, make: Callable[[], Any], ranks: int) -> None:
        self._gone = ""
        self._folder = tempfile.TemporaryDirectory(prefix="openforge-ranks-")
        meeting = Path(self._folder.name) / "meeting"
        context = get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            arguments = (theirs, rank, ranks, meeting, make)
            process = context.Process(target=serve, args=arguments, name=f"rank-{rank}", daemon=True)
            process.start()
            theirs.close()  # else nobody would see that the rank is gone
            self._pipes.append(ours)
            self._processes.append(process)
        self._collect("start")

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self._pipes)

    @property
    def pids(self) -> list[int]:
        """Of the ranks."""
        return [process.pid or 0 for process in self._processes]

    def infer_batch(self, batch: TensorDict) -> TensorDict:
        """As a worker's; the number of rows must be a multiple of `size`."""
        return self._cut("infer_batch", batch)

    def train_batch(self, batch: TensorDict) -> TensorDict:
        """As a worker's; the number of rows must be a multiple of `size`."""
        return self._cut("train_batch", batch)

    def set_loss_fn(self, loss: Callable[..., Any]) -> None:
        """As a worker's."""
        self.call("set_loss_fn", loss)

    def set_lr(self, lr: float) -> None:
        """As a worker's."""
        self.call("set_lr", lr)

    def export(self, file: Path, part: Part = "whole") -> None:
        """As a worker's."""
        self.call("export", file, part)

    def tensors(self) -> dict[str, Tensor]:
        """As a worker's."""
        found: dict[str, Tensor] = self.call("tensors")
        return found

    def save_model(self, begun_as: Path, folder: Path) -> None:
        """As a worker's."""
        self.call("save_model", begun_as, folder)

    def save_checkpoint(self, folder: str, **options: Any) -> None:
        """As a worker's: each rank writes its part."""
        self.call("save_checkpoint", folder, **options)

    def load_checkpoint(self, folder: str, **options: Any) -> None:
        """As a worker's: each rank reads its part, so there must be as many as there were."""
        self.call("load_checkpoint", folder, **options)

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Has all ranks call a method of their worker. Returns what the first one's returned.

        Raises:
            ForgeError: a rank died or failed, now or before.
        """
        return self._ask(name, [(arguments, options)] * self.size)[0]

    def close(self) -> None:
        """Ends the ranks."""
        self._end(_SHUTDOWN)

    def _cut(self, name: str, batch: TensorDict) -> TensorDict:
        parts = tu.chunk_tensordict(batch, self.size)
        return _joined(self._ask(name, [((part,), {}) for part in parts]))

    def _ask(self, name: str, arguments: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        if self._gone:
            raise ForgeError(self._gone)
        try:
            for pipe, each in zip(self._pipes, arguments, strict=True):
                pipe.send_bytes(pickle.dumps((name, *each)))
        except OSError:
            self._fail(name)
        return self._collect(name)

    def _collect(self, name: str) -> list[Any]:
        """One answer of each rank, whichever comes first."""
        found: dict[int, Any] = {}
        while len(found) < self.size:
            for ready in wait([pipe for rank, pipe in enumerate(self._pipes) if rank not in found]):
                rank = self._pipes.index(ready)  # type: ignore[arg-type]  # only pipes are waited for
                try:
                    value, wrong = pickle.loads(self._pipes[rank].recv_bytes())
                except (EOFError, OSError):
                    self._fail(name)
                if wrong:
                    self._end(f"rank {rank} of the learner failed in {name}: {wrong}")
                    raise ForgeError(self._gone)
                found[rank] = value
        return [found[rank] for rank in range(self.size)]

    def _fail(self, name: str) -> None:
        """Ends all ranks, and says which ones were dead already."""
        ended_now = wait([process.sentinel for process in self._processes], _END_S)
        for process in self._processes:
            if process.sentinel in ended_now:
                process.join(_END_S)  # its files close a moment before its status can be had
        dead = {rank: p.exitcode for rank, p in enumerate(self._processes) if p.exitcode is not None}
        ended = ", ".join(f"rank {rank} ended with status {code}" for rank, code in dead.items()) or "a rank fell silent"
        self._end(f"the learner lost a rank in {name}: {ended}; start the run again to go on from its last checkpoint")
        raise ForgeError(self._gone)

    def _end(self, why: str) -> None:
        self._gone = self._gone or why
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.kill()
            process.join(_END_S)
        self._folder.cleanup()


def _joined(parts: Sequence[TensorDict]) -> TensorDict:
    """Outputs of the ranks in the order of their rows; metrics are the first one's, which veRL gathered from all."""
    names = set(parts[0].keys()) - {"metrics"}
    values = {name: tu.concat_nested_tensors([part[name] for part in parts]) for name in names}
    return tu.get_tensordict(tensor_dict=values, non_tensor_dict={"metrics": tu.get(parts[0], "metrics")})
