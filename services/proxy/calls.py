"""A call from its arrival to its end. The order of steps here is what makes records trustworthy:

number and durable intent -> engine -> record durable -> last byte to the harness -> intent settled.

A process that dies between two steps leaves an open intent, or a record, or both; never a forwarded call without a trace.
"""

from __future__ import annotations

import logging
import time

from aiohttp import StreamReader

from services.proxy.client import EVENTS, JSON, Client
from services.proxy.dialects.base import Dialect, Turn
from services.proxy.errors import ClientLeft, EngineRefused, Refused, broken, unavailable
from services.proxy.ledger import Ending, Ledger
from services.proxy.recorder import Call, Recorder
from services.proxy.sampling import engine_request
from services.proxy.sessions import read_meta
from services.proxy.sse import SseSplitter
from services.proxy.upstream import Engine
from shared.config import Config
from shared.errors import BusUnavailable, FidelityError, ForgeError, Rejected
from shared.log import log_context
from shared.store.sessions import Begun

log = logging.getLogger(__name__)


class Calls:
    """Serves model calls.

    Args:
        config: resolved configuration.
        ledger: numbers calls and settles them.
        engine: where calls go.
        recorder: makes records durable.
    """

    def __init__(self, config: Config, ledger: Ledger, engine: Engine, recorder: Recorder) -> None:
        self._config = config
        self._ledger = ledger
        self._engine = engine
        self._recorder = recorder

    async def serve(self, dialect: Dialect, secret: str, client: Client) -> None:
        """One call. Every way in which it can end is answered or, when the client left, noted.

        Raises:
            Refused: it did not become a call; nothing has been sent to the client.
            ClientLeft: the client hung up before it became one.
        """
        body = await client.read(int(self._config.proxy.max_body_mb * 1024 * 1024))
        turn = dialect.read(body)
        client.watch()
        arrived = time.monotonic()
        begun = await self._ledger.begin(secret, client)
        ending: Ending = "lost"
        try:
            call = self._call(dialect.api, turn, begun, arrived)
            with log_context(rollout=call.meta.rollout_id, call=str(begun.seq)):
                ending = await self._run(dialect, call, client)
        finally:  # a call that was cancelled is lost: what it sampled is on no record
            self._ledger.settle(begun, ending)

    def _call(self, api: str, turn: Turn, begun: Begun, arrived: float) -> Call:
        meta = read_meta(begun.meta)
        request = engine_request(turn, meta.sampling, self._config, attempt=meta.attempt, seq=begun.seq)
        return Call(api, turn, begun, meta, request, arrived)

    async def _run(self, dialect: Dialect, call: Call, client: Client) -> Ending:
        try:
            tail = await client.unless_left(self._exchange(call, client))
            await self._recorder.record(call, "sent")
        except ClientLeft:
            return await self._keep_cut(call)
        except EngineRefused as e:
            await client.respond(e.status, e.content_type, e.body)
            return "errored"
        except Refused as e:
            ending = await self._keep_cut(call)
            await _fail(dialect, client, e)
            return ending
        except (FidelityError, Rejected) as e:
            await _fail(dialect, client, broken(str(e)))
            return "lost"
        except BusUnavailable as e:
            await _fail(dialect, client, unavailable(str(e)))
            return "lost"
        gone = client.gone
        await _finish(call.turn, client, tail)
        return "cut" if gone else "delivered"

    async def _exchange(self, call: Call, client: Client) -> bytes:
        """Asks the engine and relays what comes; gives back what must wait until the record is durable."""
        async with self._engine.chat(call.request.body) as stream:
            if call.turn.stream:
                return await _relay(call, stream, client)
            body = await stream.read()
            call.answer.add_whole(body)
            return body

    async def _keep_cut(self, call: Call) -> Ending:
        """Records what was sampled of a reply that will not become whole."""
        if not call.answer.completion:
            return "errored"
        try:
            await self._recorder.record(call, "cut")
        except ForgeError as e:
            log.warning("a reply that was cut could not be recorded: %s", e)
            return "lost"
        return "cut"


async def _relay(call: Call, stream: StreamReader, client: Client) -> bytes:
    """Passes events on as they come, up to the one that ends the reply; that one and what follows are given back."""
    splitter, tail = SseSplitter(), bytearray()
    await client.start(200, EVENTS, cache_control="no-cache")
    async for piece in stream.iter_any():
        now = bytearray()
        for event in splitter.feed(piece):
            held = call.answer.finish_reason is not None or call.answer.add_event(event)
            (tail if held else now).extend(event)
        if now:
            await client.send(bytes(now))
    if call.answer.finish_reason is None:
        raise broken("the engine's stream ended before its reply did")
    return bytes(tail) + splitter.rest


async def _finish(turn: Turn, client: Client, tail: bytes) -> None:
    if turn.stream:
        await client.send(tail, last=True)
    else:
        await client.respond(200, JSON, tail)


async def _fail(dialect: Dialect, client: Client, error: Refused) -> None:
    """Reports an error. A stream that has begun is broken off after it: an orderly end would pass for a whole reply."""
    log.warning("call failed: %s", error)
    if client.started:
        await client.send(dialect.error_event(error))
    else:
        await client.respond(error.status, JSON, dialect.error(error), **error.headers)
