"""A call from its arrival to its end. The order of steps here is what makes records trustworthy:

number and durable intent -> engine -> record durable -> last byte to the harness -> intent settled.

A process that dies between two steps leaves an open intent, or a record, or both; never a forwarded call without a trace.
"""

from __future__ import annotations

import logging
import time

import msgspec

from services.proxy.client import JSON, Client
from services.proxy.dialects.base import Count, Dialect, Reply, Target, Turn
from services.proxy.engines import Engines
from services.proxy.errors import ClientLeft, Refused, Unreachable, broken, unavailable
from services.proxy.exchange import Exchange, Passed, Taught, Worded
from services.proxy.history import History
from services.proxy.known import Book
from services.proxy.ledger import Ending, Ledger, Wait
from services.proxy.prompts import Prompts
from services.proxy.recorder import Call, Recorder
from services.proxy.replay import Replay
from services.proxy.roles import part_of
from services.proxy.sampling import engine_request
from services.proxy.sessions import read_meta
from services.proxy.teacher import teacher_request
from shared.config import Config
from shared.errors import BusUnavailable, FidelityError, ForgeError, Rejected, StoreUnavailable
from shared.ids import rollout_of
from shared.log import log_context
from shared.store.sessions import Begun
from shared.watch.meters import Meters

log = logging.getLogger(__name__)


class Calls:
    """Serves model calls.

    Args:
        config: resolved configuration.
        ledger: numbers calls and settles them.
        engines: where calls go.
        book: what is known of sessions.
        history: what other proxies know of them.
        prompts: decides what is sent.
        recorder: makes records durable.
        meters: count.
    """

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        engines: Engines,
        book: Book,
        history: History,
        prompts: Prompts,
        recorder: Recorder,
        meters: Meters,
    ) -> None:
        self._config = config
        self._most_bytes = int(config.proxy.max_body_mb * 1024 * 1024)
        self._ledger = ledger
        self._engines = engines
        self._book = book
        self._history = history
        self._recorder = recorder
        self._meters = meters
        self._prompts = prompts
        self._replay = Replay(config.proxy)

    async def serve(self, dialect: Dialect, target: Target, secret: str, client: Client) -> None:
        """One call. Every way in which it can end is answered or, when the client left, noted.

        Raises:
            Refused: it did not become a call; nothing has been sent to the client.
            ClientLeft: the client hung up before it became one.
        """
        turn = dialect.read(await client.read(self._most_bytes, self._config.proxy.read_timeout_s), target)
        if turn.count is not None:
            await self._count(turn, turn.count, secret, client)
            return
        arrived = time.monotonic()
        wait = self._ledger.wait(client, waiting=turn.stream)
        begun = await self._ledger.begin(secret, wait)
        ending: Ending = "lost"
        try:
            with log_context(rollout=rollout_of(begun.session_id), session=begun.session_id, call=str(begun.seq)):
                ending = await self._run(dialect, turn, target, begun, arrived, client, wait)
        finally:  # a call that was cancelled is lost: what it sampled is on no record
            self._ledger.settle(begun, ending)

    async def _count(self, turn: Turn, count: Count, secret: str, client: Client) -> None:
        await self._ledger.check(secret)
        if self._engines.teacher is not None:
            raise Refused(404, "not_found", "the tokens of a teacher are not counted here (proxy.mode = teacher)")
        fields = {name: raw for name, raw in turn.fields.items() if name in ("tools", "chat_template_kwargs")}
        tokens = await self._engines.ask_any(lambda engine: engine.tokenize(turn.messages, fields))
        await client.respond(200, JSON, count(len(tokens)))

    async def _run(
        self, dialect: Dialect, turn: Turn, target: Target, begun: Begun, arrived: float, client: Client, wait: Wait
    ) -> Ending:
        wait.renew()
        try:
            call = await self._prepared(dialect, turn, target, begun, arrived, client, wait)
        except ClientLeft:
            return "errored"
        except (Refused, ForgeError) as e:
            await self.fail(dialect, client, e if isinstance(e, Refused) else unavailable(str(e)))
            return "errored"
        return await self._exchange(dialect, call, client, wait)

    async def _prepared(
        self, dialect: Dialect, turn: Turn, target: Target, begun: Begun, arrived: float, client: Client, wait: Wait
    ) -> Call:
        """The call as it is sent; another engine prepares it if the first cannot be reached."""
        while True:
            try:
                return await client.unless_left(self._prepare(dialect, turn, target, begun, arrived))
            except Unreachable as e:
                begun = await self._ledger.move(begun, wait, e)

    async def _prepare(self, dialect: Dialect, turn: Turn, target: Target, begun: Begun, arrived: float) -> Call:
        meta, engine = read_meta(begun.meta), self._engines.at(begun.replica)
        session = self._book.session(begun.session_id)
        session.note(begun.seq)
        if session.misses(begun.seq):
            await self._history.catch_up(begun.session_id, meta, session)
        prompt = await self._prompts.prepare(turn, session, engine)
        if self._engines.teacher is not None:
            request = teacher_request(turn, meta.sampling, self._config)
        else:
            request = engine_request(turn, meta.sampling, self._config, attempt=meta.attempt, seq=begun.seq)
        part = part_of(meta.roles, turn, target.headers)
        return Call(dialect.api, turn, begun, engine, meta, session, part, prompt, request, arrived)

    async def _exchange(self, dialect: Dialect, call: Call, client: Client, wait: Wait) -> Ending:
        try:
            began, held_s = time.monotonic(), wait.held_s
            call, exchange, reply = await self._replied(dialect, call, client, wait)
            gap = await self._replay.gap(call)
            waited_s = time.monotonic() - began + held_s
            await self._recorder.record(call, reply, "sent", gap)
            self._meters.observe("call_added_seconds", time.monotonic() - call.arrived - waited_s)
        except ClientLeft:
            return await self._keep_cut(call)
        except Refused as e:
            ending = await self._keep_cut(call)
            await self.fail(dialect, client, e)
            return ending
        except (FidelityError, Rejected) as e:
            await self.fail(dialect, client, broken(str(e)))
            return "lost"
        except (BusUnavailable, StoreUnavailable) as e:
            await self.fail(dialect, client, unavailable(str(e)))
            return "lost"
        gone = client.gone
        await exchange.finish()
        return "cut" if gone else "delivered"

    async def _replied(self, dialect: Dialect, call: Call, client: Client, wait: Wait) -> tuple[Call, Exchange, Reply]:
        """The reply of the first engine that could be reached: of one that could not, nothing has come."""
        while True:
            exchange = self._way(dialect, call, client)
            try:
                return call, exchange, await client.unless_left(exchange.run())
            except Unreachable as e:
                begun = await self._ledger.move(call.begun, wait, e)
                call = msgspec.structs.replace(call, begun=begun, engine=self._engines.at(begun.replica))

    def _way(self, dialect: Dialect, call: Call, client: Client) -> Exchange:
        """What the engine says is passed on as it is where engine and harness speak the same, and worded anew elsewhere."""
        same = dialect.api == "openai.chat" and self._config.proxy.mode == "record"
        kind = Taught if self._engines.teacher is not None else Passed if same else Worded
        return kind(dialect, call, client, self._config.engine.max_model_len)

    async def _keep_cut(self, call: Call) -> Ending:
        """Records what was sampled of a reply that will not become whole."""
        if not call.answer.completion:
            return "errored"
        try:
            await self._recorder.record(call, call.answer.reply, "cut")
        except ForgeError as e:
            log.warning("a reply that was cut could not be recorded: %s", e)
            return "lost"
        return "cut"

    async def fail(self, dialect: Dialect, client: Client, error: Refused) -> None:
        """Reports an error; a stream that has begun ends with it as its dialect wants."""
        log.warning("refused or failed: %s", error)
        self._meters.add("calls_failed_total", 1, str(error.status))
        if client.started:
            await client.send(dialect.error_event(error), last=not dialect.breaks_off)
            return
        unread = error.status in (408, 413)  # on a connection that stays open, the rest of the body would have to be read
        headers = error.headers | ({"connection": "close"} if unread else {})
        await client.respond(error.status, JSON, dialect.error(error), **headers)
