"""Settings of weight pushes."""

from __future__ import annotations

from typing import Literal

from shared.config.base import Count, Positive, Section


class PushConfig(Section, frozen=True, kw_only=True):
    """How new weights reach the engines, one engine after another.

    Attributes:
        calls: what becomes of calls in flight: `drain` waits until they end, `hold` lets them stand still and go on under the
            new weights, so that a reply may be of two versions; that takes a `pace.max_staleness` of 1 or more.
        transport: `file` writes the weights into the run folder, which engines must be able to read; `nccl` sends them from GPU
            to GPU.
        keep: weight files of so many versions are kept.
        watch_s: seconds between two looks at each engine; one that was restarted gets the newest weights before it serves.
        nccl_host: with `nccl`, address of the trainer's machine that engines reach.
        nccl_port: with `nccl`, a free port there; each engine takes one, counted from it.
    """

    calls: Literal["drain", "hold"] = "drain"
    transport: Literal["file", "nccl"] = "file"
    keep: Count = 2
    watch_s: Positive = 1.0
    nccl_host: str = "127.0.0.1"
    nccl_port: Count = 29600
