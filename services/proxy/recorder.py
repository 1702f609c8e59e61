"""A finished (or cut) call as `CallRecorded`, durable on the bus."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from services.proxy.answer import Answer
from services.proxy.dialects.base import Turn
from services.proxy.sampling import EngineRequest
from services.proxy.sessions import Book, SessionMeta
from shared.bus import Bus
from shared.events import CallRecorded
from shared.packing import digest_packed, pack_floats, pack_ids
from shared.store.sessions import Begun

Delivery = Literal["sent", "cut"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call from its number to its end.

    Attributes:
        api: dialect of the harness.
        turn: what it asked for.
        begun: session, number and weight version.
        meta: the session's.
        request: what was sent to the engine.
        arrived: monotonic seconds at which the harness's request had come.
        answer: what came back so far.
    """

    api: str
    turn: Turn
    begun: Begun
    meta: SessionMeta
    request: EngineRequest
    arrived: float
    answer: Answer = field(default_factory=Answer)


class Recorder:
    """Publishes records.

    Args:
        bus: where to.
        book: gives prompts their parents.
        run_id: of the run.
        engine: id of the engine.
    """

    def __init__(self, bus: Bus, book: Book, run_id: str, engine: str) -> None:
        self._bus = bus
        self._book = book
        self._run_id = run_id
        self._engine = engine

    async def record(self, call: Call, delivery: Delivery) -> None:
        """Returns when the record is durable.

        Raises:
            FidelityError: the answer cannot be recorded exactly.
            BusUnavailable, Rejected: the bus did not take it.
        """
        latency_s = time.monotonic() - call.arrived
        prompt, completion = pack_ids(call.answer.check()), pack_ids(call.answer.completion)
        await self._bus.publish(self._message(call, prompt, completion, delivery, latency_s))
        self._book.add(call.begun.session_id, call.begun.seq, prompt + completion)

    def _message(self, call: Call, prompt: bytes, completion: bytes, delivery: Delivery, latency_s: float) -> CallRecorded:
        origin = self._book.origin(call.begun.session_id, call.begun.seq, prompt)
        return CallRecorded(
            run_id=self._run_id,
            rollout_id=call.meta.rollout_id,
            attempt=call.meta.attempt,
            group_id=call.meta.group_id,
            purpose=call.meta.purpose,
            session_id=call.begun.session_id,
            seq=call.begun.seq,
            api=call.api,
            model=call.turn.model,
            parent_seq=origin.parent_seq,
            parent_status=origin.status,
            parent_len=origin.parent_len,
            prompt_len=len(call.answer.prompt or ()),
            prompt_delta=prompt[4 * origin.parent_len :],
            prompt_digest=digest_packed(prompt),
            completion=completion,
            logprobs=pack_floats(call.answer.logprobs),
            finish_reason=call.answer.finish_reason,
            sampling=call.request.sampling,
            requested=call.turn.requested,
            weight_version_start=call.begun.version,
            weight_version_end=call.begun.version,  # the gate keeps weights from being pushed while a call is open
            engine=self._engine,
            constrained=call.turn.constrained,
            delivery=delivery,
            streamed=call.turn.stream,
            latency_s=latency_s,
            reply=call.answer.reply,
        )
