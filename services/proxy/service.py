"""Life of the gateway: what it opens, in which order, and how it ends without leaving a call unaccounted for."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import uvicorn

from services.proxy.calls import Calls
from services.proxy.client import Receive, Scope, Send
from services.proxy.control import HEALTH, Control, build_app
from services.proxy.door import door
from services.proxy.gate import Gate
from services.proxy.history import History
from services.proxy.known import Book
from services.proxy.ledger import Ledger
from services.proxy.model import stop_tokens
from services.proxy.own_runner import OwnRunner, own_routes
from services.proxy.prompts import Prompts
from services.proxy.recorder import Recorder
from services.proxy.routes import Gateway
from services.proxy.stops import Stops
from services.proxy.teacher import TEACHERS
from services.proxy.upstream import Engine
from shared.bus import Bus
from shared.config import Config
from shared.errors import BusUnavailable, ConfigError, StoreUnavailable
from shared.store.blobs import Blobs
from shared.store.sessions import Sessions

log = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
KEEPALIVE_S = 75
"""Longer than HTTP clients keep idle connections, so that a request never meets one that is being closed."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:  # signals belong to the process, not to this server
        yield


_Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


class Front:
    """The ASGI application: control requests go to FastAPI, all others past its routing and middleware to the gateway."""

    def __init__(self, control: _Asgi, gateway: _Asgi) -> None:
        self._control = control
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        path: str = scope["path"]
        app = self._control if path.startswith("/control/") or path in HEALTH else self._gateway
        await app(scope, receive, send)


class ProxyService:
    """The recording gateway in front of one engine.

    Args:
        config: resolved configuration.
        bus: takes the records.
        sessions: numbers calls and knows which are open.
        blobs: takes images.
        control_key: opens the control routes; session secrets are derived from it.

    Raises:
        ConfigError: the control key is empty, or a teacher's is not there.
    """

    def __init__(self, config: Config, bus: Bus, sessions: Sessions, blobs: Blobs, *, control_key: str) -> None:
        if not control_key:
            raise ConfigError(f"the control key is empty; set {config.proxy.control_key_env}")
        self.proxy_id = f"proxy-{secrets.token_hex(4)}"
        self._config = config
        self._sessions = sessions
        self._engine = _engine(config)
        book = Book()
        self._gate = Gate(config.run.id, bus, sessions)
        self._ledger = Ledger(sessions, self.proxy_id, config.proxy.hold_s)
        stops = Stops(stop_tokens(config.engine.model))
        prompts = Prompts(self._engine, config.proxy.mode, config.proxy.thinking, stops)
        recorder = Recorder(bus, blobs, book, stops, config)
        history = History(bus, book, stops, config.run.id)
        calls = Calls(config, self._ledger, self._engine, book, history, prompts, recorder)
        control = Control(config, bus, sessions, self._engine, book, control_key)
        app = build_app(control, own_routes(OwnRunner(config.run.id, bus, sessions, control), control))
        gateway = Gateway(calls, config.engine.served_name, config.engine.max_model_len)
        self._server = _Server(_server_config(Front(app, gateway), config))
        self._tasks: list[asyncio.Task[None]] = []
        self._port = config.proxy.port

    @property
    def url(self) -> str:
        """Where it listens: `http://host:port`."""
        return f"http://{self._config.proxy.host}:{self._port}"

    @property
    def serving(self) -> int:
        """Requests that are being served."""
        return len(self._server.server_state.tasks)

    async def start(self) -> None:
        """Returns once requests are served.

        Raises:
            ConfigError: the address cannot be listened on.
            StoreUnavailable, BusUnavailable: the store or the bus does not answer.
        """
        await self._beat()
        listener = _listen(self._config.proxy.host, self._config.proxy.port)
        self._port = listener.getsockname()[1]
        serving = asyncio.create_task(self._server.serve([listener]))
        self._tasks = [serving, asyncio.create_task(self._heartbeat())]
        while not self._server.started:
            if serving.done():
                serving.result()
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Takes no more requests, lets running ones finish for `proxy.drain_s`, cancels the rest, settles all."""
        if not self._tasks:
            return
        serving, heartbeat = self._tasks
        self._tasks = []
        self._server.should_exit = True
        await serving
        if cancelled := set(self._server.server_state.tasks):
            await asyncio.wait(cancelled, timeout=self._config.proxy.drain_s)
        await self._ledger.stop(self._config.proxy.drain_s)
        heartbeat.cancel()
        await asyncio.wait({heartbeat})
        await self._engine.stop()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await self._beat()
            except (StoreUnavailable, BusUnavailable) as e:
                log.warning("heartbeat failed: %s", e)

    async def _beat(self) -> None:
        await self._sessions.heartbeat(self.proxy_id)
        await self._gate.keep()


def _engine(config: Config) -> Engine:
    engine, timeout_s = config.engine, config.proxy.call_timeout_s
    if config.proxy.mode != "teacher":
        return Engine(engine.url, engine.served_name, timeout_s)
    key = os.environ.get(engine.key_env, "") if engine.key_env else ""
    if engine.key_env and not key:
        raise ConfigError(f"engine.key_env: the environment variable {engine.key_env} is not set; put the teacher's key there")
    return Engine(engine.url, engine.served_name, timeout_s, TEACHERS[engine.api], key)


def _server_config(app: object, config: Config) -> uvicorn.Config:
    logging.getLogger("uvicorn.access").disabled = True  # paths hold secrets; access_log=False leaves it open to new handlers
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=door(config.proxy.read_timeout_s),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEPALIVE_S,
        timeout_graceful_shutdown=max(1, round(config.proxy.drain_s)),
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError as e:
        raise ConfigError(f"cannot listen on {host}:{port} ({e.strerror}); set proxy.host and proxy.port") from None
