"""What the bus's contract tests share: limits, messages, and a handler that notes what it got."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shared.bus.memory import MemoryBus
from shared.bus.nats import NatsBus
from shared.events import CallRecorded, Message, RolloutFailed, RolloutStart

MAX_DELIVER = 3
ACK_WAIT_S = 1.0

AnyBus = MemoryBus | NatsBus
NewBus = Callable[[], Awaitable[AnyBus]]
"""Makes one more connection to the same bus."""


def failed(run_id: str, n: int = 0, detail: str = "") -> RolloutFailed:
    return RolloutFailed(
        run_id=run_id,
        rollout_id=f"r{n}",
        group_id="g",
        group_size=1,
        task="t",
        harness="h",
        reason="SandboxError",
        detail=detail,
    )


def call(run_id: str, n: int) -> CallRecorded:
    return CallRecorded(
        run_id=run_id, rollout_id="r", group_id="g", session_id="r-a1", seq=n, api="openai.chat", model="policy", prompt_len=1,
        prompt_delta=b"\1\0\0\0", prompt_digest="", completion=b"\2\0\0\0", logprobs=b"\0\0\0\0", finish_reason="stop",
        weight_version_start=0, weight_version_end=0,
    )  # fmt: skip


def start(run_id: str, n: int) -> RolloutStart:
    return RolloutStart(run_id=run_id, rollout_id=f"r{n}", group_id="g", group_size=2, task_dir="/t", harness="react")


class Log:
    """A handler that notes what it got, and fails as told."""

    def __init__(self, fail: Callable[[Message, int], Exception | None] = lambda message, time: None) -> None:
        self.got: list[Message] = []
        self._fail = fail

    async def __call__(self, message: Message) -> None:
        self.got.append(message)
        error = self._fail(message, self.got.count(message))
        if error is not None:
            raise error
