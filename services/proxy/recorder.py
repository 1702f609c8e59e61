"""A finished (or cut) call as `CallRecorded`, durable on the bus."""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import Any, Literal

import msgspec
import orjson

from services.proxy import paths
from services.proxy.answer import Answer
from services.proxy.dialects.base import Reply, Turn
from services.proxy.known import Book, Known, Session, first_thought, ids_json
from services.proxy.media import detach, hashes_of, keep_experts, place, strays
from services.proxy.model import placeholder_tokens
from services.proxy.prompts import Prompt
from services.proxy.roles import Part
from services.proxy.sampling import EngineRequest
from services.proxy.seen import Seen
from services.proxy.sessions import SessionMeta
from services.proxy.stops import Stops
from services.proxy.upstream import Engine
from shared.bus import Bus
from shared.config import Config
from shared.errors import FidelityError
from shared.events import CallRecorded
from shared.packing import digest_packed, digester, pack_ids, unpack_ids
from shared.store.blobs import Blobs
from shared.store.replicas import Replicas
from shared.store.sessions import Begun

Delivery = Literal["sent", "cut"]
_MB = 1024**2
_NO_TOOLS = msgspec.Raw(b"null")


class Call(msgspec.Struct, frozen=True):
    """One call from its number to its end.

    Attributes:
        api: dialect of the harness.
        turn: what it asked for.
        begun: session, number, replica and weight version.
        engine: of the replica.
        meta: the session's.
        session: what this proxy knows of its calls.
        part: whose call it is.
        prompt: what was sent as the prompt.
        request: what else was sent.
        arrived: monotonic seconds at which the harness's request had come.
        answer: what came back so far.
    """

    api: str
    turn: Turn
    begun: Begun
    engine: Engine
    meta: SessionMeta
    session: Session
    part: Part
    prompt: Prompt
    request: EngineRequest
    arrived: float
    answer: Answer = msgspec.field(default_factory=Answer)


class _Ids(msgspec.Struct, frozen=True):
    """The prompt's ids as they are recorded: what follows the parent's, of how many, and hashes over all of them."""

    parent: Known | None
    delta: bytes
    json: bytes
    length: int
    digest: blake2b


_NO_IDS = _Ids(None, b"", b"", 0, digester())


class Recorder:
    """Publishes records.

    Args:
        bus: where to.
        blobs: takes images.
        book: learns of every recorded call.
        stops: tells stop tokens.
        config: of the run.
        replicas: say under which weights a reply ended.
    """

    def __init__(self, bus: Bus, blobs: Blobs, book: Book, stops: Stops, config: Config, replicas: Replicas) -> None:
        self._bus = bus
        self._blobs = blobs
        self._book = book
        self._stops = stops
        self._replicas = replicas
        self._holds = config.trainer.push.calls == "hold"
        self._run_id = config.run.id
        self._exact = config.proxy.mode != "teacher"
        self._max_model_len = config.engine.max_model_len
        self._placeholders = placeholder_tokens(config.engine.model)

    async def record(self, call: Call, reply: Reply, delivery: Delivery, replay_gap: float | None = None) -> None:
        """Returns when the record is durable.

        `replay_gap`: what `services.proxy.replay` measured.

        Raises:
            FidelityError: the answer cannot be recorded exactly, or the engine saw another prompt than it was sent.
            BusUnavailable, Rejected: the bus did not take it.
            StoreUnavailable: the store did not take an image or what the engine said of its experts, or say which weights
                an engine has.
        """
        latency_s = time.monotonic() - call.arrived
        ids, completion, logprobs = _NO_IDS, b"", b""
        if self._exact:
            logprobs = call.answer.check()
            ids, completion = _resolve(call), _pack(call.answer.completion)
        left = self._max_model_len - ids.length
        stop = self._stops.end_of(call.answer, min(call.request.limit or left, left))
        path = paths.after_reply(call.prompt.end, reply)
        # an engine loads no weights while calls are open, unless it holds them
        version = await self._replicas.version(call.begun.replica) if self._holds else call.begun.version
        message = self._message(call, reply, ids, completion, logprobs, stop, path, delivery, latency_s, replay_gap, version)
        if call.turn.media:
            message = await self._without_media(call, message, ids)
        if self._placeholders and strays(unpack_ids(ids.delta), call.answer.completion, self._placeholders, message.media):
            message = msgspec.structs.replace(message, stray_media=True)
        if call.answer.experts:
            message = msgspec.structs.replace(message, experts=await keep_experts(call.answer.experts, self._blobs))
        await self._bus.publish(message)
        call.session.tools.add(message.tools_digest)
        self._learn(call, reply, ids, completion, stop, path)

    async def _without_media(self, call: Call, message: CallRecorded, ids: _Ids) -> CallRecorded:
        messages, hashes = await detach(message.messages, self._blobs)
        goes_on = call.prompt.parent and ids.parent and call.prompt.parent.seq == ids.parent.seq
        earlier = [] if goes_on else hashes_of(call.turn.messages[: call.prompt.kept])
        media = place(hashes, unpack_ids(ids.delta), self._placeholders, message.parent_len, earlier)
        return msgspec.structs.replace(message, messages=messages, media=media)

    def _learn(self, call: Call, reply: Reply, ids: _Ids, completion: bytes, stop: int | None, path: bytes) -> None:
        digest = ids.digest.copy()
        digest.update(completion)
        json = b",".join(filter(None, (ids.json, orjson.dumps(call.answer.completion)[1:-1] if completion else b"")))
        known = Known(
            call.begun.seq, ids.parent.seq if ids.parent else None, ids.length + len(completion) // 4,
            ids.delta + completion, json, digest, stop,
            tuple((c.id, c.name) for c in reply.tool_calls), thought=first_thought(bool(reply.reasoning), completion),
        )  # fmt: skip
        call.session.add(known, path)
        self._book.grew(call.begun.session_id)

    def _message(
        self,
        call: Call,
        reply: Reply,
        ids: _Ids,
        completion: bytes,
        logprobs: bytes,
        stop: int | None,
        path: bytes,
        delivery: Delivery,
        latency_s: float,
        replay_gap: float | None,
        version_end: int,
    ) -> CallRecorded:
        tools = call.turn.fields.get("tools", _NO_TOOLS)
        tools_digest = "" if tools == _NO_TOOLS else _digest_of(bytes(tools))
        prompt, begun, meta = call.prompt, call.begun, call.meta
        return CallRecorded(
            run_id=self._run_id,
            rollout_id=meta.rollout_id,
            attempt=meta.attempt,
            group_id=meta.group_id,
            purpose=meta.purpose,
            session_id=begun.session_id,
            seq=begun.seq,
            api=call.api,
            model=call.turn.model,
            role=call.part.role,
            thread=call.part.thread,
            parent_seq=ids.parent.seq if ids.parent else None,
            parent_status="extends" if ids.parent is not None else "unresolved" if call.session.misses(begun.seq) else "root",
            parent_len=ids.parent.length if ids.parent else 0,
            prompt_len=ids.length,
            prompt_delta=ids.delta,
            prompt_digest=ids.digest.hexdigest(),
            spliced=bool(prompt.spliced),
            fork=_fork(prompt, ids.parent) if self._exact else prompt.fork,
            messages=call.turn.messages[prompt.kept :],
            messages_from=prompt.parent.seq if prompt.parent else None,
            tools=_NO_TOOLS if tools_digest in call.session.tools else tools,
            tools_digest=tools_digest,
            start=prompt.start.hex(),
            path=path.hex(),
            completion=completion,
            logprobs=logprobs,
            finish_reason=call.answer.finish_reason,
            stop_id=stop,
            sampling=call.request.recorded(self._max_model_len - ids.length),
            requested=call.turn.requested,
            weight_version_start=begun.version,
            weight_version_end=version_end,
            engine=begun.replica,
            constrained=call.turn.constrained,
            replay_gap=replay_gap,
            delivery=delivery,
            streamed=call.turn.stream,
            latency_s=latency_s,
            reply=_message_of(reply),
            tokens=self._exact,
        )


def _resolve(call: Call) -> _Ids:
    """Which of the prompt's ids are a known call's, and which are new."""
    answer, session, wanted = call.answer, call.session, call.prompt.parent
    if (
        call.prompt.spliced
        and answer.prompt != call.prompt.spliced
        and _read_ids(answer.prompt) != _read_ids(call.prompt.spliced)
    ):
        raise FidelityError(
            "the engine saw other prompt ids than it was sent; does it support kv_transfer_params.prompt_token_ids?"
        )
    if wanted is not None and (end := session.end(wanted.seq, answer.prompt)):
        return _delta(call, wanted, answer.prompt[end:-1])
    root = _root_of(answer.prompt)
    found = session.parent(root.delta) if session.calls else None
    if found is None:
        return root
    parent = session.calls[found.seq]
    return _delta(call, parent, ids_json(root.delta[4 * parent.length :]))


def _fork(prompt: Prompt, parent: Known | None) -> str:
    """Why the prompt does not extend the call that the harness went on from. What was not spliced may still extend it."""
    if prompt.fork or prompt.parent is None or prompt.parent is parent:
        return prompt.fork
    return prompt.declined or "template_moves"


def _delta(call: Call, parent: Known, json: bytes) -> _Ids:
    ids = _read_ids(b"[" + json + b"]")
    digest = call.session.digest(parent.seq)
    digest.update(ids)
    return _Ids(parent, ids, json, parent.length + len(ids) // 4, digest)


def _read_ids(json: bytes) -> bytes:
    """Packed ids from a JSON array."""
    try:
        return pack_ids(orjson.loads(json))
    except (ValueError, TypeError, OverflowError) as e:
        raise FidelityError(f"the engine's prompt_token_ids cannot be read: {e}") from None


def _root(json: bytes) -> _Ids:
    prompt = _read_ids(json)
    return _Ids(None, prompt, json[1:-1], len(prompt) // 4, digester(prompt))


_root_of = Seen(_root, most=8 * _MB)  # the rollouts of a group begin alike
_digest_of = Seen(digest_packed, most=4 * _MB)


def _pack(ids: list[int]) -> bytes:
    try:
        return pack_ids(ids)
    except OverflowError:
        raise FidelityError("the engine gave a token id that is none") from None


def _message_of(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning:
        message["reasoning"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in reply.tool_calls
        ]
    return message
