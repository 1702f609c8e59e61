"""The one composition root: configuration -> adapters -> one service. Every process of the system starts here."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, get_args

import msgspec
import uvloop
from msgspec.structs import replace

from shared.bus import Bus
from shared.bus.nats import NatsBus, connect_nats
from shared.config import Config, Resolved, ServiceName
from shared.errors import ConfigError, ForgeError
from shared.events import Message
from shared.keys import ORCHESTRATOR
from shared.log import log_context, setup_logging
from shared.rotation import MB, Bound
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from shared.store.boxes import Boxes
from shared.store.connect import Client, connect, login_of
from shared.store.rights import STORE_RIGHTS
from shared.store.sessions import Sessions
from shared.store.shares import Shares
from shared.store.words import Words, answers
from shared.trace.tracer import Nowhere, Sink, Tracer
from shared.watch.server import WatchServer
from shared.watch.watch import Watch, own_version

log = logging.getLogger(__name__)
SERVICES: tuple[ServiceName, ...] = get_args(ServiceName)
_PR_SET_PDEATHSIG = 1
_GARBAGE_AFTER = 20_000  # objects, beyond those that were freed


class Service(Protocol):
    """What every service is: it starts, and it stops without losing anything."""

    async def start(self) -> None:
        """Returns when the service is ready."""
        ...

    async def stop(self) -> None:
        """Drains and ends. Doing it again changes nothing."""
        ...


class Ready(msgspec.Struct, frozen=True):
    """What a service leaves in ``<run folder>/services/<name>.json`` once it is ready: its process, and where it answers."""

    pid: int
    url: str = ""


def run_folder(config: Config) -> Path:
    """Where a run keeps everything it leaves behind."""
    return Path(config.run.root) / config.run.id


def ready_file(config: Config, name: str) -> Path:
    """Where a service says that it is ready."""
    return run_folder(config) / "services" / f"{name}.json"


def build(name: ServiceName, config: Config, bus: Bus, store: Client, watch: Watch) -> Service:
    """Puts one service together. Its heavy imports happen here and in no other service's process.

    Raises:
        ConfigError: a secret's environment variable is not set.
    """
    run, ttl = config.run.id, config.store.ttl_s
    match name:
        case "proxy":
            from services.proxy.service import ProxyService

            key = _secret(config.proxy.control_key_env)
            calls, blobs = Sessions(store, run, ttl), Blobs(store, run, ttl)
            return ProxyService(config, bus, calls, blobs, Boxes(store, run), watch, control_key=key)
        case "orchestrator":
            from services.orchestrator.gateway import Gateway, NoSessions
            from services.orchestrator.service import OrchestratorService
            from services.orchestrator.site import site_of

            key = _secret(config.proxy.control_key_env)
            # a stack without a proxy has no port of it
            sessions = Gateway(config.proxy, key) if config.proxy.control_port else NoSessions()
            return OrchestratorService(config, bus, site_of(config, key), sessions, parent_gone(), open_shares(config), watch)
        case "collector":
            from services.collector.service import CollectorService

            assembly, blobs = Assembly(store, run, ttl), Blobs(store, run, ttl)
            return CollectorService(config, bus, assembly, blobs, run_folder(config), watch)
        case "trainer":
            from services.trainer.service import TrainerService

            return TrainerService(config, bus, Sessions(store, run, ttl), Blobs(store, run, ttl), watch=watch)
        case "synth":
            from services.synth.service import SynthService

            return SynthService(config, bus)


async def open_bus(config: Config, user: str, watch: Watch | None = None, sink: Sink | None = None) -> NatsBus:
    """A connection of a user (`shared.keys`) to the run's bus; a `watch` counts what is published, a `sink` takes its spans.

    Raises:
        BusUnavailable: no server answers, or none that knows the user's key.
        ConfigError: the key cannot be read.
    """
    published = watch.published if watch else _uncounted
    tracer = None if config.traces.to == "off" else Tracer(config.traces, sink or Nowhere())
    return await connect_nats(config.bus, config.run.id, user, published, tracer)


def open_export(config: Config, name: str, stack: AsyncExitStack) -> Sink | None:
    """Takes a service's spans until the stack is left; None without traces, for which nothing is imported.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    if config.traces.to == "off":
        return None
    try:
        from shared.trace.export import Export
    except ImportError as e:
        raise ConfigError(
            f"traces.to = {config.traces.to!r} takes OpenTelemetry: pip install 'openforgerl[traces]' ({e})"
        ) from e
    export = Export(config.traces, run_folder(config), name, own_version())
    stack.push_async_callback(export.close)
    return export


def open_store(config: Config, user: str) -> Client:
    """A client of the run's store, which connects once it is used. A user that has nothing to do there has no password.

    Raises:
        ConfigError: the password cannot be read.
    """
    login = login_of(config.store.keys, user) if user in STORE_RIGHTS else None
    return connect(config.store.url, login, config.store.timeout_s, config.store.tls)


def open_shares(config: Config) -> Shares | None:
    """What the run has of a pool that it shares with others; None if it shares none.

    Raises:
        ConfigError: the password of the pool's store cannot be read.
    """
    capacity = config.orchestrator.capacity
    if not capacity.pool:
        return None
    if capacity.url:
        place = replace(config, store=replace(config.store, url=capacity.url, keys=capacity.keys))
        return Shares(open_store(place, ORCHESTRATOR), capacity.pool, capacity.lease_s)
    return Shares(open_store(config, ORCHESTRATOR), capacity.pool, capacity.lease_s)


async def serve(name: ServiceName, config: Config) -> None:
    """Runs one service until SIGTERM or SIGINT.

    Raises:
        ForgeError: it could not start.
    """
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as stack:
        watch = Watch(name, config.run.id)
        watch.health.state = "it is starting"
        bus = await open_bus(config, name, watch, open_export(config, name, stack))
        stack.push_async_callback(bus.close)
        store = open_store(config, name)
        stack.push_async_callback(store.aclose)
        watch.health.checks |= {"bus": bus.ping, "store": partial(answers, store)}
        watch.sources.append(partial(_count_messages, watch, bus))
        if name != "proxy":  # it has a server
            server = WatchServer(watch, config.metrics)
            stack.push_async_callback(server.stop)
            await server.start()
        service = build(name, config, bus, store, watch)
        stack.push_async_callback(service.stop)
        await service.start()
        words, alive = Words(store, config.run.id), ready_file(config, name)
        telling = asyncio.create_task(_tell(watch, words, config.metrics.tell_s, alive))
        stack.push_async_callback(_end, telling)
        watch.health.state = ""
        _settle_memory()
        _say_ready(config, name, watch.url)
        log.info("%s is ready", name)
        await stopped.wait()
        watch.health.state = "it is stopping"
        log.info("%s stops", name)


def main(name: ServiceName, config: Config) -> None:
    """The body of `openforge serve`: logging, the event loop, and an end together with the supervisor."""
    die_with_parent()
    file, bound = run_folder(config) / "logs" / f"{name}.jsonl", Bound(config.log.file_mb * MB, config.log.older_files)
    setup_logging(file, config.log.format, secrets_of(config), bound=bound)
    with log_context(run=config.run.id, service=name):
        uvloop.run(serve(name, config))


def die_with_parent() -> None:
    """Asks the kernel to send SIGTERM to this process when its parent dies, so that a killed supervisor leaves no orphan."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def parent_gone() -> Callable[[], bool]:
    """Tells, later, whether the process that is the parent now has ended."""
    parent = os.getppid()
    return lambda: os.getppid() != parent


async def _tell(watch: Watch, words: Words, every_s: float, alive: Path) -> None:
    """Says again and again how the service does, for whoever asks about the deployment; at its end, that it has left. The time
    of a file in the run folder says to whoever prunes runs that this one lives."""
    try:
        while True:
            with suppress(OSError):  # it is not ready yet
                os.utime(alive)
            try:
                await words.say(await watch.word())
            except ForgeError as e:
                log.warning("how this service does is not told: %s", e)
            await asyncio.sleep(every_s)
    finally:
        with suppress(ForgeError):
            await words.leave(watch.id)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _count_messages(watch: Watch, bus: NatsBus) -> None:
    watch.meters.replace("messages_total", {(outcome,): n for outcome, n in bus.counts.items()})
    watch.meters.replace("messages_repeated_total", {(kind,): n for kind, n in bus.repeats.items()})


def _uncounted(message: Message) -> None:
    """Of a command's own connection."""


def secrets_of(config: Config) -> list[str]:
    """The secrets that a configuration names the environment variables of."""
    variables = [str(value) for name, value, _ in Resolved(config, {}).items() if name.endswith("_env") and value]
    return [value for variable in variables if (value := os.environ.get(variable, ""))]


def _secret(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(f"the environment variable {variable} is not set; `openforge dev` sets it for the services it starts")
    return value


def _settle_memory() -> None:
    """Takes what stands now out of the search for garbage, and has that search made less often: most of what a service makes is
    freed without it, and a tenth of its time would go there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_AFTER, 20, 20)


def _say_ready(config: Config, name: str, url: str) -> None:
    file = ready_file(config, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(Ready(os.getpid(), url)))
    temporary.replace(file)
