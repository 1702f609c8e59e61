"""One rank: makes its worker, and does with it what it is told through a pipe."""

from __future__ import annotations

import os
import pickle
import threading
import traceback
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

GONE = 3
"""Exit status of a rank whose trainer is gone."""


def serve(pipe: Connection, rank: int, world: int, meeting: Path, make: Callable[[], Any]) -> None:
    """Runs a rank until its trainer closes the pipe.

    Requests are pickled (method, arguments, options); answers are (value, "") or (None, what went wrong).

    Args:
        pipe: to the trainer.
        rank: of this process.
        world: number of ranks.
        meeting: file by which they find each other.
        make: makes the worker; every rank calls it.
    """
    _die_with_the_trainer()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    worker: Any = None
    try:
        _join(rank, world, meeting)
        worker = make()
        _answer(pipe, None)
        while True:
            name, arguments, options = pickle.loads(pipe.recv_bytes())
            _answer(pipe, getattr(worker, name)(*arguments, **options))
    except EOFError:
        os._exit(0)
    except BaseException as e:  # what ends a rank is told where it can be read
        pipe.send_bytes(pickle.dumps((None, f"{type(e).__name__}: {e}\n{traceback.format_exc()}")))
        os._exit(1)


def _join(rank: int, world: int, meeting: Path) -> None:
    import torch.distributed as dist

    from services.trainer.verl import cpu_platform

    cpu_platform.register_engine()
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)


def _answer(pipe: Connection, value: Any) -> None:
    pipe.send_bytes(pickle.dumps((value, "")))


def _die_with_the_trainer() -> None:
    """A rank that waits for another one in a collective would outlive a trainer that was killed."""
    trainer = parent_process()
    assert trainer is not None, "a rank is started by its trainer"

    def watch() -> None:
        wait([trainer.sentinel])
        os._exit(GONE)

    threading.Thread(target=watch, daemon=True).start()
