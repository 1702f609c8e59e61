"""Commands in pods, over one websocket each: a byte in front of every frame says which stream it is of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import IO, Any

import aiohttp
import msgspec
from kubernetes_asyncio import client
from kubernetes_asyncio.stream import WsApiClient

from services.orchestrator.backends.kubernetes.podspec import MAIN
from shared.errors import SandboxAway, SandboxError

STDIN, STDOUT, RESULT = 0, 1, 3
CHUNK = 65536
KILL_S = 10.0
START_S = 60.0
"""What a command's start may take, on a node that has much to do; its own time counts from then on."""
# Its number first, so that it can be killed: it leads a process group, and goes on when nobody listens any more.
_NUMBERED = 'echo $$ && exec "$@"'

Take = Callable[[bytes], object]


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Result(msgspec.Struct):
    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details = msgspec.field(default_factory=_Details)


class Commands:
    """Runs commands in the main containers of one namespace's pods."""

    def __init__(self, configuration: client.Configuration, namespace: str) -> None:
        self._client = WsApiClient(configuration, heartbeat=30.0)
        self._core = client.CoreV1Api(self._client)
        self._namespace = namespace

    async def close(self) -> None:
        """Closes its connections."""
        await self._client.close()

    async def run(
        self, pod: str, argv: Sequence[str], timeout_s: float, out: Take, err: Take, source: IO[bytes] | None = None
    ) -> int:
        """Runs a command, gives away what it prints as it comes, and returns its exit code.

        Args:
            pod: its name.
            argv: program and arguments.
            timeout_s: after which it is killed.
            out, err: get what it prints to either stream.
            source: what it reads. It is not told where that ends: it has to know how much to read.

        Raises:
            SandboxError: the pod does not run, the command could not be started, or it did not end in time.
        """
        loop, ended = asyncio.get_running_loop(), False
        number = _Number(out, lambda: clock.reschedule(loop.time() + timeout_s))
        try:
            async with asyncio.timeout(START_S) as clock:
                code = await self._run(pod, ["/bin/sh", "-c", _NUMBERED, "sh", *argv], number, err, source)
                ended = True
                return code
        except TimeoutError:
            limit = f"did not end within {timeout_s:g} s" if number.value else f"did not start within {START_S:g} s"
            raise SandboxError(f"the command {limit}: {' '.join(argv)[-200:]}") from None
        finally:
            if number.value and not ended:
                await self._kill(pod, number.value)

    async def _kill(self, pod: str, number: int) -> None:
        """Best effort: when the pod is gone, so is the command."""
        script = f"kill -9 -{number} || kill -9 {number}"  # its group; some shells do not understand `--` here
        with contextlib.suppress(SandboxError, TimeoutError):
            async with asyncio.timeout(KILL_S):
                await self._run(pod, ["/bin/sh", "-c", script], _drop, _drop, None)

    async def _run(self, pod: str, argv: list[str], out: Take, err: Take, source: IO[bytes] | None) -> int:
        try:
            connecting = await self._core.connect_get_namespaced_pod_exec(
                pod, self._namespace, container=MAIN, command=argv, stdin=source is not None, stdout=True, stderr=True,
                tty=False, _preload_content=False,
            )  # fmt: skip
            async with connecting as socket:
                feeding = asyncio.create_task(_feed(socket, source)) if source else None
                try:
                    return _exit_code([frame async for frame in _frames(socket, out, err)])
                finally:
                    if feeding:
                        feeding.cancel()
                        await asyncio.gather(feeding, return_exceptions=True)
        except aiohttp.WSServerHandshakeError as e:
            raise SandboxError(f"no command can be run in {pod}: {e.status} {e.message}; does it run?") from e
        except (aiohttp.ClientError, OSError) as e:
            raise SandboxAway(f"the API server does not answer: {e}") from e


class _Number:
    """Takes the first line, the command's number, out of what it prints."""

    def __init__(self, take: Take, started: Callable[[], None]) -> None:
        self.value = 0
        self._take, self._started, self._head = take, started, b""

    def __call__(self, data: bytes) -> None:
        if self.value:
            self._take(data)
            return
        self._head += data
        line, newline, rest = self._head.partition(b"\n")
        if newline:
            self.value = int(line)
            self._started()
            if rest:
                self._take(rest)


def _drop(_: bytes) -> None: ...


async def _feed(socket: aiohttp.ClientWebSocketResponse, source: IO[bytes]) -> None:
    while chunk := await asyncio.to_thread(source.read, CHUNK):
        await socket.send_bytes(bytes([STDIN]) + chunk)


async def _frames(socket: aiohttp.ClientWebSocketResponse, out: Take, err: Take) -> AsyncIterator[bytes]:
    """Gives output away; what comes out is the result."""
    async for message in socket:
        if message.type is aiohttp.WSMsgType.ERROR:
            raise SandboxAway(f"the connection to the command broke: {message.data}")
        frame: Any = message.data if isinstance(message.data, bytes) else message.data.encode()
        if frame[0] == RESULT:
            yield frame[1:]
        elif len(frame) > 1:
            (out if frame[0] == STDOUT else err)(frame[1:])


def _exit_code(results: list[bytes]) -> int:
    if not results:
        raise SandboxAway("the connection to the command broke before it ended")
    result = msgspec.json.decode(results[-1], type=_Result)
    if result.status == "Success":
        return 0
    for cause in result.details.causes:
        if cause.reason == "ExitCode":
            return int(cause.message)
    raise SandboxError(f"the command could not be run: {result.message}")
