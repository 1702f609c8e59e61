"""From a configuration to the processes of a stack. Nothing is started here."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import secrets
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
from msgspec.structs import replace

from services.app import SERVICES, ready_file
from services.dev.keys import EVERYBODY, make_keys, users_of
from services.dev.process import GRACE_S, ProcessSpec
from services.dev.scratch import new_scratch
from services.dev.servers import free_port, nats_command, valkey_command
from services.dev.settings_file import write_settings
from services.trainer.vllm.command import vllm_command
from shared.config import Config, OrchestratorConfig, ProxyConfig, ServiceName
from shared.ids import check_id, new_run_id

KEYS = "keys"
"""Folder in the run folder with the keys of servers that were started for the run."""
_SOCKET_PATH = 107  # bytes that the kernel takes
_ORCHESTRATOR_GRACE_S = 20.0  # its end waits for rollouts to be reported, and for their sandboxes to be gone
_ENGINE_WINDOW_S, _ENGINE_BACKOFF_S = 600.0, 0.5  # it takes long to start, and long to fail
_COLLECTOR_GRACE_S = 15.0  # beyond `bus.ack_wait_s`: its end waits for what is still on the bus


@dataclass(frozen=True, slots=True)
class Plan:
    """A stack to be started.

    Attributes:
        config: resolved: run id, addresses and ports are filled in.
        folder: the run folder.
        scratch: folder for the processes' temporary files, made for as long as the stack is there.
        env: secrets, as environment variables of the services.
        servers: embedded servers.
        engines: the inference engines; none when running ones are used.
        serving_copy: prepares the model folder for serving and ends; None when there is nothing to prepare.
        services: the services.
    """

    config: Config
    folder: Path
    scratch: Path
    env: dict[str, str]
    servers: list[ProcessSpec]
    engines: list[ProcessSpec]
    serving_copy: ProcessSpec | None
    services: list[ProcessSpec]


def make_plan(config: Config, services: tuple[ServiceName, ...] | None = None, *, engines: bool = True) -> Plan:
    """Fills in ids, ports, addresses and secrets, and writes down every process.

    Args:
        config: as it was given.
        services: to be run; by default those that train, and whoever makes tasks if the configuration asks for it.
        engines: are wanted, and started where none is named; without one no model can be called.

    Raises:
        InvalidId: run.id is no legal identifier.
        ConfigError: keys that were named cannot be read.
        OSError: the run folder cannot be written.
    """
    if services is None:
        services = tuple(s for s in SERVICES if s != "synth" or config.synth.enabled)
    run_id = check_id(config.run.id or new_run_id(), "run.id")
    folder, scratch = Path(config.run.root).resolve() / run_id, new_scratch()
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    env = _secrets(config)
    config = replace(config, run=replace(config.run, id=run_id, root=str(folder.parent)))
    write_settings(config, folder)
    config, servers = _servers(_keyed(config, folder), folder)
    config = replace(config, proxy=_proxy(config, folder, scratch, "proxy" in services), orchestrator=_orchestrator(config))
    config, started, serving = _engines(config, folder) if engines else (_without_engine(config), [], None)
    file = folder / "config.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(config)))
    # started first it is ended last, and archives the others' last words
    wanted = sorted(services, key=lambda s: s != "collector")
    return Plan(
        config, folder, scratch, env, servers, [_tidy(spec, scratch) for spec in started], serving and _tidy(serving, scratch),
        [_tidy(_service(s, config, file, env), scratch) for s in wanted],
    )  # fmt: skip


def _tidy(spec: ProcessSpec, scratch: Path) -> ProcessSpec:
    """With a place for temporary files that goes with the stack."""
    return dataclasses.replace(spec, env={**spec.env, "TMPDIR": str(scratch)})


def _secrets(config: Config) -> dict[str, str]:
    """New secrets that the services are given in their environment."""
    return {config.proxy.control_key_env: secrets.token_hex(16)}


def _keyed(config: Config, folder: Path) -> Config:
    """Gives new keys, for this run alone, to the servers that are started here; those that run already know others."""
    keys = folder / KEYS
    if (config.bus.url or config.bus.keys) and (config.store.url or config.store.keys):
        return config
    make_keys(keys, config.run.id, renew=EVERYBODY)
    bus = config.bus if config.bus.url or config.bus.keys else replace(config.bus, keys=str(keys))
    store = config.store if config.store.url or config.store.keys else replace(config.store, keys=str(keys))
    return replace(config, bus=bus, store=store)


def _proxy(config: Config, folder: Path, scratch: Path, runs: bool) -> ProxyConfig:
    """Where the proxy is found; without a port where there is none."""
    if not runs:
        return replace(config.proxy, port=0, control_port=0, socket="")
    port, control_port = (number or free_port() for number in (config.proxy.port, config.proxy.control_port))
    return replace(config.proxy, port=port, control_port=control_port, socket=_socket(config, folder, scratch))


def _socket(config: Config, folder: Path, scratch: Path) -> str:
    """The proxy's unix socket, in a folder of its own that containers are shown; empty where nobody needs one."""
    if config.proxy.socket or config.orchestrator.backend != "docker":
        return config.proxy.socket
    wanted = folder / "proxy" / "proxy.sock"
    if len(os.fsencode(wanted)) > _SOCKET_PATH:
        wanted = scratch / "proxy" / "proxy.sock"
    return str(wanted)


def _orchestrator(config: Config) -> OrchestratorConfig:
    """Sandboxes stay where they are when the stack goes: those of a killed one are found by the next."""
    return replace(config.orchestrator, work_root=config.orchestrator.work_root or tempfile.gettempdir())


def _servers(config: Config, folder: Path) -> tuple[Config, list[ProcessSpec]]:
    servers = []
    if not config.bus.url:
        port = free_port()
        users = users_of(Path(config.bus.keys), config.run.id).bus
        argv = nats_command(port, folder / "nats", users, config.bus.max_payload)
        servers.append(
            ProcessSpec("nats-server", argv, folder / "logs" / "nats-server.log", ready=_port_open("127.0.0.1", port))
        )
        config = replace(config, bus=replace(config.bus, url=f"nats://127.0.0.1:{port}"))
    if not config.store.url:
        port = free_port()
        argv = valkey_command(port, folder / "store", users_of(Path(config.store.keys), config.run.id).store)
        servers.append(ProcessSpec("valkey", argv, folder / "logs" / "valkey.log", ready=_port_open("127.0.0.1", port)))
        config = replace(config, store=replace(config.store, url=f"redis://127.0.0.1:{port}/0"))
    return config, servers


def _without_engine(config: Config) -> Config:
    """A proxy that is there for sandboxes alone wants an address all the same; nobody answers there."""
    return config if config.engine.addresses else replace(config, engine=replace(config.engine, url="http://127.0.0.1:9"))


def _engines(config: Config, folder: Path) -> tuple[Config, list[ProcessSpec], ProcessSpec | None]:
    if config.engine.addresses:
        return config, [], None
    served = str(folder / "serving") if config.engine.model else ""
    serving: ProcessSpec | None = None
    if not config.engine.command:
        copy = [sys.executable, "-m", "services.trainer.weights.serving", config.engine.model, served]
        serving = ProcessSpec("serving copy", copy, folder / "logs" / "serving.log")
    ports = [free_port() for _ in range(config.engine.replicas)]
    specs = [_engine(config, folder, served, number, port) for number, port in enumerate(ports, 1)]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    engine = replace(config.engine, url=urls[0] if len(urls) == 1 else "", urls=urls if len(urls) > 1 else [])
    return replace(config, engine=engine), specs, serving


def _engine(config: Config, folder: Path, served: str, number: int, port: int) -> ProcessSpec:
    name = "engine" if number == 1 else f"engine-{number}"
    env: dict[str, str] = {}
    if config.engine.command:
        words = {"port": str(port), "model": config.engine.model, "name": config.engine.served_name}
        argv = [w.format(**words) for w in config.engine.command]
    else:
        argv, env = vllm_command(config.engine, port, served, folder / "weights")
    # What a dead one leaves behind would keep the GPU's memory. One that was started again takes no calls of a run before the
    # trainer has brought it to the newest weights.
    return ProcessSpec(
        name, argv, folder / "logs" / f"{name}.log", env=env, ready=_answers(f"http://127.0.0.1:{port}/health"),
        once_ready=True, whole=True, window_s=_ENGINE_WINDOW_S, backoff_s=_ENGINE_BACKOFF_S,
    )  # fmt: skip


def _service(name: ServiceName, config: Config, file: Path, env: dict[str, str]) -> ProcessSpec:
    argv = [sys.executable, "-m", "services.cli", "serve", name, "--config", str(file)]
    log = file.parent / "logs" / f"{name}.log"
    ready = _exists(ready_file(config, name))
    longer = {"orchestrator": _ORCHESTRATOR_GRACE_S, "collector": config.bus.ack_wait_s + _COLLECTOR_GRACE_S}
    spec = ProcessSpec(name, argv, log, env=env, ready=ready, grace_s=longer.get(name, GRACE_S))
    if name != "trainer":
        return spec
    # It loads and learns again for minutes before it is where it was: what counts is whether it gets any further.
    return dataclasses.replace(spec, restarts=config.trainer.resume.restarts, window_s=math.inf, unless_failed=True)


def _port_open(host: str, port: int) -> Callable[[], Awaitable[bool]]:
    async def ready() -> bool:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    return ready


def _exists(file: Path) -> Callable[[], Awaitable[bool]]:
    async def ready() -> bool:
        return file.exists()

    return ready


def _answers(url: str) -> Callable[[], Awaitable[bool]]:
    async def ready() -> bool:
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http, http.get(url) as reply:
                return reply.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    return ready
