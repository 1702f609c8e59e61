"""Life of the gateway: what it opens, in which order, and how it ends without leaving a call unaccounted for."""

from __future__ import annotations

import asyncio
import logging
import secrets

from services.proxy.boxes import box_routes
from services.proxy.calls import Calls
from services.proxy.control import Control, build_app
from services.proxy.control_server import ControlServer
from services.proxy.door import Limits
from services.proxy.engines import engines_of
from services.proxy.gate import Gate
from services.proxy.history import History
from services.proxy.known import Book
from services.proxy.ledger import Ledger
from services.proxy.listening import listen, listen_unix, remove_unix, socket_path
from services.proxy.model import stop_tokens, warn_without
from services.proxy.own_runner import OwnRunner, own_routes
from services.proxy.prompts import Prompts
from services.proxy.recorder import Recorder
from services.proxy.routes import Gateway
from services.proxy.server import Server
from services.proxy.stops import Stops
from shared.bus import Bus
from shared.config import Config
from shared.errors import BusUnavailable, ConfigError, StoreUnavailable
from shared.store.blobs import Blobs
from shared.store.boxes import Boxes
from shared.store.sessions import Sessions
from shared.tasks import end
from shared.watch.watch import Watch

log = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
KEEPALIVE_S = 75
"""Longer than HTTP clients keep idle connections, so that a request never meets one that is being closed."""


class ProxyService:
    """The recording gateway in front of the engines.

    Args:
        config: resolved configuration.
        bus: takes the records.
        sessions: numbers calls and knows which are open.
        blobs: takes images.
        boxes: keeps the work of runners in containers.
        watch: counts and tells.
        control_key: opens the control routes; session secrets are derived from it.

    Raises:
        ConfigError: the control key is empty, or a teacher's is not there.
    """

    def __init__(
        self, config: Config, bus: Bus, sessions: Sessions, blobs: Blobs, boxes: Boxes, watch: Watch | None = None, *,
        control_key: str,
    ) -> None:  # fmt: skip
        if not control_key:
            raise ConfigError(f"the control key is empty; set {config.proxy.control_key_env}")
        self.proxy_id = f"proxy-{secrets.token_hex(4)}"
        self._config = config
        self._sessions = sessions
        self._engines = engines_of(config)
        self._watch = watch or Watch("proxy", config.run.id)
        self._watch.health.checks |= {"bus": bus.ping, "store": sessions.replicas.newest, "engine": self._engines.check}
        self._watch.sources.append(self._look)
        book = Book()
        self._gate = Gate(config.run.id, bus, sessions.replicas, self._engines)
        self._ledger = Ledger(sessions, self.proxy_id, config.proxy.hold_s, self._watch.meters)
        if config.proxy.mode != "teacher":
            warn_without(config.engine.model)
        stops = Stops(stop_tokens(config.engine.model))
        prompts = Prompts(config.proxy.mode, config.proxy.thinking, stops)
        recorder = Recorder(bus, blobs, book, stops, config, sessions.replicas)
        history = History(bus, book, stops, config.run.id)
        calls = Calls(config, self._ledger, self._engines, book, history, prompts, recorder, self._watch.meters)
        control = Control(config, bus, sessions, book, control_key)
        own = own_routes(OwnRunner(config.run.id, bus, sessions, control), control, lambda: self._port)
        app = build_app(control, self._watch, own, box_routes(boxes, control, control_key, config.run.id))
        gateway = Gateway(calls, boxes, config.engine.served_name, config.engine.max_model_len)
        self._server = Server(gateway.serve, Limits(config.proxy.read_timeout_s, KEEPALIVE_S))
        self._control = ControlServer(app, config.proxy.drain_s)
        self._beating: asyncio.Task[None] | None = None
        self._port, self._control_port = config.proxy.port, config.proxy.control_port

    @property
    def url(self) -> str:
        """Where it listens for harnesses: `http://host:port`."""
        return f"http://{self._config.proxy.host}:{self._port}"

    @property
    def control_url(self) -> str:
        """Where it listens for control requests: `http://host:port`."""
        return f"http://{self._config.proxy.host}:{self._control_port}"

    @property
    def serving(self) -> int:
        """Requests that are being served."""
        return self._server.serving

    async def start(self) -> None:
        """Returns once requests are served.

        Raises:
            ConfigError: an address cannot be listened on.
            StoreUnavailable, BusUnavailable: the store or the bus does not answer.
        """
        await self._beat()
        proxy = self._config.proxy
        listeners = [listen(proxy.host, proxy.port, "proxy.port")]
        if proxy.socket:
            listeners.append(listen_unix(socket_path(proxy.socket)))
        control = listen(proxy.host, proxy.control_port, "proxy.control_port")
        self._port, self._control_port = listeners[0].getsockname()[1], control.getsockname()[1]
        for listener in listeners:
            await self._server.start(listener)
        await self._control.start(control)
        self._watch.url = self.control_url
        self._beating = asyncio.create_task(self._heartbeat())

    async def stop(self) -> None:
        """Takes no more requests, lets running ones finish for `proxy.drain_s`, cancels the rest, settles all."""
        if self._beating is None:
            return
        heartbeat, self._beating = self._beating, None
        if self._config.proxy.socket:
            remove_unix(socket_path(self._config.proxy.socket))
        await self._server.stop(self._config.proxy.drain_s)
        await self._control.stop()
        await self._ledger.stop(self._config.proxy.drain_s)
        await end(heartbeat)
        await self._engines.stop()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await self._beat()
            except (StoreUnavailable, BusUnavailable) as e:
                log.warning("heartbeat failed: %s", e)

    async def _look(self) -> None:
        """Reads what stands in the store, and the requests that are open."""
        meters, table = self._watch.meters, await self._sessions.replicas.look()
        meters.set("requests_open", self.serving)
        meters.replace("engine_open", {(address,): state.open for address, state in table.items()})
        meters.replace("engine_weight_version", {(address,): state.version for address, state in table.items()})
        meters.replace("engine_calls", {(address,): state.calls for address, state in table.items()})

    async def _beat(self) -> None:
        await self._sessions.heartbeat(self.proxy_id)
        await self._gate.keep()
