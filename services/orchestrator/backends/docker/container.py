"""From a sandbox that is asked for to a container, and from a container to how the sandbox is seen. Nothing is done here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from services.orchestrator.backends.port import FORGOTTEN_S, Box, Resources, Seen
from services.orchestrator.harnesses.layout import ENTRY, TOOLS
from services.orchestrator.spec import FINAL, Status
from shared.config.sandboxes import ResourcesConfig
from shared.errors import AgentMemory, ForgeError, ImageError, OutOfMemory, SandboxError

SOCKETS = "/openforge-proxy"
"""Folder with the proxies' sockets, in every container."""
STATUS_FILE = "/.openforge-status.json"
"""Where a runner leaves its status. Not in its output alone: what is printed while an engine is away is lost."""
USER = "65534:65534"
"""Who agent and verifier run as when their task does not say."""
HOSTNAME = "sandbox"  # the same in all, since agents put it into their prompts
RUN_LABEL, SESSION_LABEL, USER_LABEL, WORKDIR_LABEL, DEADLINE_LABEL = (
    "openforge.run",
    "openforge.session",
    "openforge.user",
    "openforge.workdir",
    "openforge.deadline",
)

_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"]
"""Of PID 1: to give folders to the agent's user, to become that user, to end what it left. The agent itself has none."""
_LOG = {"max-size": "16m", "max-file": "2"}
"""Above what a runner prints of agent and verifier together, even where each byte is written as an escape."""
_KILLED = 137


@dataclass(frozen=True, slots=True)
class Place:
    """What containers of a run have in common.

    Attributes:
        run: id of the run.
        sockets: folder of the engine's machine (absolute), or named volume, with the proxy's socket in it.
        network: name of the network of tasks that ask for the internet.
        defaults: resources of a sandbox whose task does not say.
    """

    run: str
    sockets: str
    network: str
    defaults: ResourcesConfig


def container_name(run: str, session: str) -> str:
    """Its name. Sessions have their names within their run."""
    return f"openforge-{run}-{session}"


def container_config(box: Box, place: Place, image: str, tools: str, ticket: str, disk: bool = True) -> dict[str, Any]:
    """What the engine is asked to make.

    Args:
        box: what is asked for.
        place: of the run.
        image: that it starts from.
        tools: volume with runner and harness.
        ticket: that its runner shows the proxy.
        disk: whether the engine can limit what a container writes.
    """
    return {
        "Image": image, "Entrypoint": list(ENTRY), "Cmd": [], "User": "0:0", "WorkingDir": "/", "Hostname": HOSTNAME,
        "Env": [
            f"OPENFORGE_PROXY=unix:{SOCKETS}", f"OPENFORGE_TICKET={ticket}", f"OPENFORGE_LEASE={box.spec['lease_s']:g}",
            f"OPENFORGE_STATUS={STATUS_FILE}",
        ],
        "Labels": labels(box, place.run),
        "Healthcheck": {"Test": ["NONE"]}, "StopSignal": "SIGTERM", "Tty": False,
        "HostConfig": {
            "NetworkMode": place.network if box.network == "public" else "none",
            "Mounts": [_mount(tools, TOOLS), _mount(place.sockets, SOCKETS)],
            "AutoRemove": False, "RestartPolicy": {"Name": "no"}, "Init": False, "IpcMode": "private",
            "CapDrop": ["ALL"], "CapAdd": _CAPABILITIES, "SecurityOpt": ["no-new-privileges"],
            "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
            "LogConfig": {"Type": "json-file", "Config": _LOG},
            **_limits(box.resources, place.defaults, disk),
        },
    }  # fmt: skip


def labels(box: Box, run: str) -> dict[str, str]:
    """By which the containers of a run are found again, and told apart by a person."""
    shown = {f"openforge.{key}": value for key, value in box.labels.items()}
    workdir = next((phase["cwd"] for phase in box.spec["phases"]), "/")
    own = {RUN_LABEL: run, SESSION_LABEL: box.name, USER_LABEL: box.user or USER, WORKDIR_LABEL: workdir}
    return shown | own | {DEADLINE_LABEL: f"{box.deadline_s:.0f}"}


def forgotten(labels: Mapping[str, str], created: float, now: float) -> bool:
    """Whether a container with these labels is nobody's any more (see `FORGOTTEN_S`). One without a usable deadline is not ours
    to judge. Times are seconds since 1970."""
    try:
        deadline = float(labels[DEADLINE_LABEL])
    except (KeyError, ValueError):
        return False
    return created + deadline + FORGOTTEN_S < now


def in_stage(name: str, state: str, where: str) -> Seen | None:
    """How a sandbox whose container has not ended is seen; None if it has."""
    match state:
        case "created":
            return Seen(name, "boot", where=where)
        case "running" | "paused" | "restarting":
            return Seen(name, "run", where=where)
    return None


def ended(name: str, container: Mapping[str, Any], left: bytes, printed: str, where: str) -> Seen:
    """How a sandbox is seen whose container ended.

    Args:
        name: its session id.
        container: as inspected.
        left: content of its status file; of no meaning if the runner did not end by its own will.
        printed: the end of what its runner printed, for a person.
        where: machine.
    """
    found = _outcome(container["State"], bool(container["HostConfig"]["Memory"]), left, printed)
    if isinstance(found, ForgeError):
        return Seen(name, "ended", error=found, where=where, image=container["Image"])
    return Seen(name, "ended", status=found, where=where, image=container["Image"])


def _outcome(state: Mapping[str, Any], limited: bool, left: bytes, printed: str) -> Status | ForgeError:
    code = state.get("ExitCode", 0)
    if said := state.get("Error"):
        return start_error(f"the sandbox could not be started: {said}")
    if code == 0:
        return _status(left)
    if state.get("OOMKilled"):
        if limited:
            return AgentMemory("the sandbox was killed: it used more memory than it was given")
        return OutOfMemory("the sandbox was killed: its machine, which gave it no limit, ran out of memory")
    if code == _KILLED:
        return SandboxError("the sandbox was killed from outside")
    return SandboxError(
        f"the runner of the sandbox failed with exit code {code}: {printed.strip()[-400:] or 'it said nothing'}"
    )


def _status(left: bytes) -> Status | SandboxError:
    if not left:
        return SandboxError("the runner of the sandbox left no status")
    try:
        status = msgspec.json.decode(left, type=Status)
    except msgspec.DecodeError as e:
        return SandboxError(f"the status that the runner left is not usable: {e}")
    if status["phase"] not in FINAL:
        return SandboxError(f"the runner ended in phase {status['phase']!r}")
    return status


def _mount(source: str, target: str) -> dict[str, Any]:
    kind = "bind" if source.startswith("/") else "volume"
    return {"Type": kind, "Source": source, "Target": target, "ReadOnly": True}


def _limits(wanted: Resources, defaults: ResourcesConfig, disk: bool) -> dict[str, Any]:
    """No swap beyond the memory; 0 is no limit."""
    cpus = defaults.cpus if wanted.cpus is None else wanted.cpus
    memory = (defaults.memory_mb if wanted.memory_mb is None else wanted.memory_mb) << 20
    storage = defaults.storage_mb if wanted.storage_mb is None else wanted.storage_mb
    return {
        "NanoCpus": int(cpus * 1e9),
        "Memory": memory, "MemorySwap": memory,
        "PidsLimit": defaults.pids if wanted.pids is None else wanted.pids,
        **({"StorageOpt": {"size": f"{storage}M"}} if storage and disk else {}),
    }  # fmt: skip


def start_error(said: str) -> SandboxError:
    """Why a container that was made could not be started: its image, or something else."""
    return ImageError(said) if "exec" in said or "executable" in said else SandboxError(said)
