"""The port of sandboxes over a Kubernetes cluster: a pod is a sandbox, and the cluster remembers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import ipaddress
import logging
import posixpath
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import urlsplit

from services.orchestrator.backends.kubernetes.api import Api, Missing, Other, Taken, configure
from services.orchestrator.backends.kubernetes.commands import Commands
from services.orchestrator.backends.kubernetes.podnames import RUN, label_value, pod_name
from services.orchestrator.backends.kubernetes.pods import Pod
from services.orchestrator.backends.kubernetes.podspec import END_NOW_S, GRACE_S, MAIN, MANAGER, Place, pod
from services.orchestrator.backends.kubernetes.podstate import AskedToEnd, cancelled, forgotten, seen, session_of
from services.orchestrator.backends.kubernetes.uids import Uids
from services.orchestrator.backends.kubernetes.watching import amended, now, watch
from services.orchestrator.backends.port import LOG_BYTES, OUTPUT_BYTES, Box, Ran, Seen
from services.orchestrator.backends.tars import inflate, pack, unpack
from shared.config import Config
from shared.errors import SandboxError

log = logging.getLogger(__name__)

NEEDED = (*((verb, "") for verb in ("create", "get", "list", "watch", "patch", "delete")), ("get", "log"))
"""What the orchestrator has to be allowed to do with pods of its namespace: verb and subresource. `run`, and copies of pods
that run, take `pods/exec` besides, which no rollout needs."""
COPY_S = 600.0
LAST_WORDS_S = 5.0
COPY_BYTES = 4 << 30
"""What an agent may have copied out at most."""
_INTO = 'mkdir -p "$1" && head -c "$2" | tar -xf - -C "$1"'
_OUT_OF = 'tar -cf - -C "$1" "$2"'


class Depot(Protocol):
    """Where runners fetch their work from, and leave what is to be had of an ended pod."""

    async def put(self, box: Box) -> str:
        """Leaves a box's spec and packages there, and gives the ticket that opens them."""
        ...

    async def left(self, session: str, path: str) -> bytes:
        """What the runner of a session left of a file or folder: a compressed tar, or nothing."""
        ...


async def target(url: str) -> str:
    """A proxy's URL as runners take it, `tcp:address:port`. Its name is looked up here: most pods have nobody to ask.

    Raises:
        SandboxError: pods cannot reach that.
    """
    parts = urlsplit(url)
    advice = "set orchestrator.kubernetes.proxy_url to where pods reach the proxy, like http://10.96.10.20:8080"
    if not parts.hostname or not parts.port:
        raise SandboxError(f"{url!r} has no host and port; {advice}")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError as e:
        raise SandboxError(f"{parts.hostname} cannot be looked up here ({e}); {advice}") from e
    address = found[0][4][0]
    if ipaddress.ip_address(address).is_loopback or ipaddress.ip_address(address).is_unspecified:
        raise SandboxError(f"{url} is a pod itself, seen from a pod; {advice}")
    return f"tcp:{address}:{parts.port}"


class _Capped:
    """Takes output into a file, up to a size."""

    def __init__(self, limit: int, file: IO[bytes]) -> None:
        self.file = file
        self._left = limit

    def __call__(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise SandboxError("that is more than is copied out of a sandbox")
        self.file.write(data)


class KubernetesBackend:
    """Pods of one run.

    Args:
        place: what they have in common.
        proxy: URL at which pods reach the proxy.
        depot: gives each of them what its runner needs.
    """

    kind = "kubernetes"

    def __init__(self, place: Place, proxy: str, depot: Depot) -> None:
        self._place, self._settings = place, place.settings
        self._proxy, self._depot = proxy, depot
        self._selector = f"{RUN}={label_value(place.run)}"
        self._uids = Uids()
        self._opened = AsyncExitStack()

    async def open(self) -> None:
        """See `Backend.open`."""
        self._target = await target(self._proxy)
        configuration = await configure(self._settings)
        self._api = Api(configuration, self._settings.namespace)
        self._opened.push_async_callback(self._api.close)
        self._commands = Commands(configuration, self._settings.namespace)
        self._opened.push_async_callback(self._commands.close)
        allowed = await asyncio.gather(*(self._api.may(*right) for right in NEEDED))
        missing = [f"{verb} pods/{sub}".rstrip("/") for (verb, sub), ok in zip(NEEDED, allowed, strict=True) if not ok]
        if missing:
            raise SandboxError(
                f"in the namespace {self._settings.namespace} the cluster does not allow: {', '.join(missing)}; "
                "docs/kubernetes.md has a role with all that is needed"
            )
        self._opened.push_async_callback(_end, asyncio.create_task(self._remove_forgotten()))

    async def start(self, box: Box) -> None:
        """See `Backend.start`."""
        try:
            made = await self._api.create(pod(box, self._place, self._target, await self._depot.put(box)))
        except Taken:  # perhaps by a request of ours that was never answered
            made = await self._api.read(self._name(box.name))
            if not self._ours(made, box.name):
                text = f"there is a pod {made.metadata.name} in {self._settings.namespace} that is not of this run"
                raise SandboxError(f"{text}; remove it, or take another namespace") from None
        self._uids.happened("ADDED", made)

    async def present(self) -> list[Seen]:
        """See `Backend.present`."""
        found, _ = await self._api.list(self._selector)
        self._uids.listed(found)
        news = [seen(each, now(), self._settings.unschedulable_s) for each in found if session_of(each)]
        return await asyncio.gather(*(self._at_its_end(each) for each in news))

    def watch(self) -> AsyncIterator[Seen]:
        """See `Backend.watch`."""
        return amended(watch(self._api, self._selector, self._settings.unschedulable_s, self._uids), self._at_its_end)

    async def end(self, name: str, grace_s: float) -> None:
        """See `Backend.end`. By its deadline: a pod that is deleted would take logs and status with it. What its runner does
        not end in its own grace is killed after the pod's, `GRACE_S`, whatever `grace_s` is."""
        found = await self._find(name)
        if found is None or seen(found, now(), self._settings.unschedulable_s).stage == "ended":
            return
        if not found.spec.node_name:
            await self._delete(name, 0, found.metadata.uid)
            return
        with contextlib.suppress(Missing, Other):
            await self._api.hasten(self._name(name), END_NOW_S, found.metadata.uid)

    async def remove(self, name: str) -> None:
        """See `Backend.remove`."""
        uid = self._uids.of(name)
        if not uid and (found := await self._find(name)):
            uid = found.metadata.uid
        if uid:
            await self._delete(name, 0, uid)

    async def logs(self, name: str) -> bytes:
        """See `Backend.logs`."""
        return await self._api.log(self._name(name), MAIN, LOG_BYTES)

    async def copy_in(self, name: str, source: Path, target: str) -> None:
        """See `Backend.copy_in`. The image needs `tar`."""
        with tempfile.TemporaryFile() as file:
            await asyncio.to_thread(pack, source, file)
            size = file.tell()
            file.seek(0)
            await self._shell(name, [_INTO, "sh", target, str(size)], _Capped(OUTPUT_BYTES, io.BytesIO()), file)

    async def copy_out(self, name: str, source: str, target: Path) -> None:
        """See `Backend.copy_out`. The image needs `tar`; of an ended pod there is what its runner left with the proxy."""
        found = await self._find(name)
        over = found is not None and seen(found, now(), self._settings.unschedulable_s).stage == "ended"
        with tempfile.TemporaryFile() as file:
            if over:
                await self._take_left(name, source, _Capped(COPY_BYTES, file))
            else:
                folder, base = posixpath.split(posixpath.normpath(source))
                await self._shell(name, [_OUT_OF, "sh", folder or "/", base], _Capped(COPY_BYTES, file))
            file.seek(0)
            await asyncio.to_thread(unpack, file, target)

    async def _take_left(self, name: str, source: str, out: _Capped) -> None:
        packed = await self._depot.left(name, source)
        if not packed:
            raise SandboxError(f"{source} was not there when the sandbox ended, or could not be left")
        await asyncio.to_thread(inflate, packed, out)

    async def run(self, name: str, argv: list[str], timeout_s: float) -> Ran:
        """See `Backend.run`."""
        output = bytearray()

        def keep(data: bytes) -> None:
            output.extend(data[: OUTPUT_BYTES - len(output)])

        code = await self._commands.run(self._name(name), argv, timeout_s, keep, keep)
        return Ran(code, bytes(output))

    async def _shell(self, name: str, script: list[str], out: _Capped, source: IO[bytes] | None = None) -> None:
        said = _Capped(OUTPUT_BYTES, io.BytesIO())
        code = await self._commands.run(self._name(name), ["/bin/sh", "-c", *script], COPY_S, out, said, source)
        if code:
            said.file.seek(0)
            text = said.file.read()[-400:].decode(errors="replace").strip()
            raise SandboxError(f"copying ended with exit code {code}: {text}")

    async def close(self) -> None:
        """See `Backend.close`."""
        await self._opened.aclose()

    async def _remove_forgotten(self) -> None:
        """Removes the pods of all runs in the namespace that are nobody's any more."""
        try:
            for each in (await self._api.list(f"{MANAGER}=openforge"))[0]:
                if forgotten(each, now()):
                    log.info("nobody came back for the pod %s: it is removed", each.metadata.name)
                    with contextlib.suppress(Missing, Other):
                        await self._api.delete(each.metadata.name, 0, each.metadata.uid)
        except SandboxError as e:
            log.warning("pods that nobody came back for may be left: %s", e)

    async def _at_its_end(self, news: Seen) -> Seen:
        """Waits until a pod that was asked to end did, and takes its status from what it printed."""
        if not isinstance(news.error, AskedToEnd):
            return news
        try:
            status = cancelled(await self._api.last_line(self._name(news.name), MAIN, GRACE_S + LAST_WORDS_S))
        except SandboxError:
            return news
        return replace(news, status=status, error=None) if status else news

    async def _find(self, name: str) -> Pod | None:
        try:
            found = await self._api.read(self._name(name))
        except Missing:
            return None
        return found if self._ours(found, name) else None

    async def _delete(self, name: str, grace_s: int, uid: str) -> None:
        with contextlib.suppress(Missing, Other):
            await self._api.delete(self._name(name), grace_s, uid)

    def _name(self, session: str) -> str:
        return pod_name(self._place.run, session)

    def _ours(self, found: Pod, name: str) -> bool:
        return session_of(found) == name and found.metadata.labels.get(RUN) == label_value(self._place.run)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def kubernetes_backend(config: Config, depot: Depot) -> KubernetesBackend:
    """The pods of a run, as its configuration has them."""
    settings = config.orchestrator.kubernetes
    place = Place(config.run.id, settings, config.orchestrator.resources)
    return KubernetesBackend(place, settings.proxy_url or f"http://{config.proxy.host}:{config.proxy.port}", depot)
