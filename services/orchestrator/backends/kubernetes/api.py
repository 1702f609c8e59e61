"""The API server, as far as pods need it: requests that are asked again while it is away, and its refusals as typed errors.

Answers are read as bytes into the types of `pods`; the client's own models cost ten times as much.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
import tenacity
from kubernetes_asyncio import client, config

from services.orchestrator.backends.kubernetes.pods import Bookmark, Event, Pod, PodList, Refusal
from shared.config import KubernetesConfig
from shared.errors import QuotaError, SandboxAway, SandboxError

REQUEST_S = 30.0
PAGE = 500
WATCH_S = 300
"""After which the server ends a watch, so that one that hangs is found out."""
CONNECTIONS = 128
TRIES = 5
MERGE = "application/merge-patch+json"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
T = TypeVar("T")


class Missing(SandboxError):
    """There is no such object."""


class Taken(SandboxError):
    """There is an object of that name already."""


class Other(SandboxError):
    """There is an object of that name, but it is another one than was meant."""


class Expired(SandboxError):
    """What happened since that version is no longer known: it has to be listed anew."""


async def configure(settings: KubernetesConfig) -> client.Configuration:
    """How the cluster is reached.

    Raises:
        SandboxError: there is no kubeconfig and no service account, or it cannot be used.
    """
    found = client.Configuration()
    file = settings.kubeconfig or os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube/config")
    try:
        if settings.kubeconfig or Path(file).exists() or not SERVICE_ACCOUNT.exists():
            await config.load_kube_config(file, settings.context or None, found, persist_config=False)
        else:
            config.load_incluster_config(client_configuration=found)
    except (config.ConfigException, OSError) as e:
        raise SandboxError(f"no cluster to be found: {e}; set orchestrator.kubernetes.kubeconfig, or $KUBECONFIG") from e
    found.connection_pool_maxsize = CONNECTIONS
    return found


class Api:
    """Pods of one namespace.

    Methods raise `SandboxAway` when the API server does not answer although it was asked several times, `QuotaError`, and
    another `SandboxError` when it says no.
    """

    def __init__(self, configuration: client.Configuration, namespace: str) -> None:
        self._client = client.ApiClient(configuration)
        self._core = client.CoreV1Api(self._client)
        self._auth = client.AuthorizationV1Api(self._client)
        self._namespace = namespace

    async def close(self) -> None:
        """Closes its connections."""
        await self._client.close()

    async def create(self, manifest: Mapping[str, Any]) -> Pod:
        """Makes a pod. A request that got no answer but did happen raises `Taken` when it is made again, as any other does."""
        return _decode(await self._ask(self._core.create_namespaced_pod, self._namespace, manifest), Pod)

    async def read(self, name: str) -> Pod:
        """A pod, as it is now.

        Raises:
            Missing: there is none of that name.
        """
        return _decode(await self._ask(self._core.read_namespaced_pod, name, self._namespace), Pod)

    async def list(self, selector: str) -> tuple[list[Pod], str]:
        """All pods with those labels, as they are now, and the version to watch from."""
        found: list[Pod] = []
        more: dict[str, str] = {}
        while True:
            body = await self._ask(self._core.list_namespaced_pod, self._namespace, label_selector=selector, limit=PAGE, **more)
            page = _decode(body, PodList)
            found += page.items
            if not page.metadata.continue_:
                return found, page.metadata.resource_version
            more = {"_continue": page.metadata.continue_}

    async def delete(self, name: str, grace_s: int, uid: str) -> None:
        """Deletes a pod, which gets `grace_s` to end; 0: at once, whatever its node says.

        Raises:
            Missing: there is none of that name.
            Other: it is another one.
        """
        body = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": uid}}
        await self._ask(self._core.delete_namespaced_pod, name, self._namespace, body=body)

    async def hasten(self, name: str, deadline_s: int, uid: str) -> None:
        """Sets a pod's deadline, in seconds since it began, to one that is earlier.

        Raises:
            Missing: there is none of that name.
            Other: it is another one.
        """
        body = {"metadata": {"uid": uid}, "spec": {"activeDeadlineSeconds": deadline_s}}
        await self._ask(self._core.patch_namespaced_pod, name, self._namespace, body, _content_type=MERGE)

    async def log(self, name: str, container: str, limit: int) -> bytes:
        """The first bytes of what a container printed; nothing if it has not begun, or is not there."""
        return await self._log(name, container, limit_bytes=limit)

    async def last_line(self, name: str, container: str, patience_s: float) -> bytes:
        """The last line that a container printed, once it ended; nothing as above, or if that takes longer."""
        try:
            async with asyncio.timeout(patience_s):
                printed = await self._log(name, container, tail_lines=1, follow=True)
        except TimeoutError:
            return b""
        return printed.rstrip(b"\n").rpartition(b"\n")[2]

    async def _log(self, name: str, container: str, **options: Any) -> bytes:
        try:
            return await self._ask(self._core.read_namespaced_pod_log, name, self._namespace, container=container, **options)
        except Missing:
            return b""
        except SandboxError as e:
            if "is waiting to start" in str(e) or "is not available" in str(e):
                return b""
            raise

    async def may(self, verb: str, subresource: str = "") -> bool:
        """Whether this user may do that with pods of the namespace."""
        wanted = {"namespace": self._namespace, "verb": verb, "resource": "pods", "subresource": subresource}
        body = {"spec": {"resourceAttributes": wanted}}
        answer = json.loads(await self._ask(self._auth.create_self_subject_access_review, body))
        return bool(answer.get("status", {}).get("allowed"))

    async def events(self, selector: str, version: str) -> AsyncIterator[tuple[str, Pod]]:
        """What happens to pods with those labels after that version: `ADDED`, `MODIFIED`, `DELETED`, or `BOOKMARK`, which
        brings a version alone. Ends when the server ends it.

        Raises:
            Expired: the version is too old.
        """
        call = self._core.list_namespaced_pod
        watch = {"watch": True, "resource_version": version, "allow_watch_bookmarks": True, "timeout_seconds": WATCH_S}
        timeout = aiohttp.ClientTimeout(sock_connect=REQUEST_S, sock_read=WATCH_S + REQUEST_S)
        with_labels = {"label_selector": selector, "_request_timeout": timeout}
        async with _answering(), await call(self._namespace, _preload_content=False, **watch, **with_labels) as response:
            if response.status >= 300:
                raise refusal(response.status, await response.read())
            while line := await response.content.readline():
                yield _event(line)

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(SandboxAway), stop=tenacity.stop_after_attempt(TRIES),
        wait=tenacity.wait_random_exponential(0.1, 3.0), reraise=True,
    )  # fmt: skip
    async def _ask(self, call: Callable[..., Any], *args: Any, **options: Any) -> bytes:
        async with _answering():
            response = await call(*args, _preload_content=False, _request_timeout=REQUEST_S, **options)
            async with response:
                body: bytes = await response.read()
        if response.status >= 300:
            raise refusal(response.status, body)
        return body


def refusal(code: int, body: bytes) -> SandboxError:
    """The error that an answer of the API server means."""
    try:
        said = msgspec.json.decode(body, type=Refusal)
    except msgspec.DecodeError:
        said = Refusal(code=code, message=body[:300].decode(errors="replace"))
    text = f"the API server says {code} {said.reason}: {said.message}"
    if code == 429 or code >= 500 or "error looking up service account" in said.message:  # the last: a very new namespace
        return SandboxAway(text)
    if code == 403 and "exceeded quota" in said.message:
        return QuotaError(text)
    if code in (401, 403):
        return SandboxError(f"{text}; docs/kubernetes.md names the rights that are needed")
    named: dict[int, type[SandboxError]] = {404: Missing, 410: Expired}
    if code == 409:
        return (Taken if said.reason == "AlreadyExists" else Other)(text)
    return named.get(code, SandboxError)(text)


@asynccontextmanager
async def _answering() -> AsyncIterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError) as e:
        raise SandboxAway(f"the API server does not answer: {str(e) or type(e).__name__}") from e


def _event(line: bytes) -> tuple[str, Pod]:
    event = _decode(line, Event)
    match event.type:
        case "ERROR":
            said = _decode(bytes(event.object), Refusal)
            raise refusal(said.code, bytes(event.object))
        case "BOOKMARK":
            return event.type, Pod(metadata=_decode(bytes(event.object), Bookmark).metadata)
    return event.type, _decode(bytes(event.object), Pod)


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as e:
        raise SandboxAway(f"the API server sent what is no {kind.__name__}: {e}") from e
