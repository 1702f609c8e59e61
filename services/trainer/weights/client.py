"""Client of vLLM's control routes: new weights without a restart, log-probs for the probe, and its count of sampled tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from shared.errors import EngineError

GENERATED = "vllm:generation_tokens_total"
"""vLLM's own count of the tokens it sampled."""
_TIMEOUT_S = 120.0
_LOOK_S = 5.0
_POLL_S = 0.2


class _LogProb(msgspec.Struct):
    logprob: float


class _Choice(msgspec.Struct):
    prompt_logprobs: list[dict[str, _LogProb] | None]


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Paused(msgspec.Struct):
    is_paused: bool


class _Info(msgspec.Struct):
    weight_version: str | int


class _World(msgspec.Struct):
    world_size: int


_completions = msgspec.json.Decoder(_Completion)
_paused = msgspec.json.Decoder(_Paused)
_infos = msgspec.json.Decoder(_Info)
_worlds = msgspec.json.Decoder(_World)


class Slow(EngineError):
    """The server took a request and did not answer in time: it lives, and is busy."""


class VllmEngine:
    """One vLLM server, started with `--weight-transfer-config '{"backend":"file"}'` and its development routes.

    Every method raises `EngineError` when the server does not answer, refuses or answers something else.

    Args:
        url: base URL of the server.
        name: model name that it answers to.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url = url.rstrip("/")
        self._name = name
        self._http: aiohttp.ClientSession | None = None
        self.probed = 0

    async def wait_healthy(self, timeout_s: float) -> None:
        """Returns when the server answers `/health`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while not await self._is_healthy():
            if loop.time() >= until:
                raise EngineError(f"vLLM at {self._url} is not healthy after {timeout_s:g} s; see its log")
            await asyncio.sleep(_POLL_S)

    async def open_transfer(self) -> None:
        """Makes the server ready to load weights, and ends an update that a trainer before us left unfinished."""
        paused = _decode(_paused, await self._call("GET", "/is_paused"), "/is_paused")
        if paused.is_paused:
            with suppress(EngineError):  # refused unless an update was begun, too
                await self._post("/finish_weight_update", {})
            await self._post("/resume")
        await self._post("/init_weight_transfer_engine", {"init_info": {}})

    async def load(self, file: Path, sha256: str, version: int, base: tuple[Path, str] | None = None) -> None:
        """Loads a weight file whose checksum is known, and stamps its version. Generation stands still meanwhile and goes on
        whatever happens. With a `base`, of which the checksum is known as well, the file has adapters to be added to that."""
        update = {"path": str(file), "sha256": sha256}
        if base is not None:
            update |= {"base": str(base[0]), "base_sha256": base[1]}
        async with self.paused():
            await self._post("/start_weight_update")
            try:
                await self._post("/update_weights", {"update_info": update})
            except EngineError:
                with suppress(EngineError):  # or it would not begin another one
                    await self._post("/finish_weight_update", {})
                raise
            await self._post("/finish_weight_update", {"weight_version": str(version)})
            await self._post("/reset_prefix_cache")

    async def stamp(self, version: int) -> None:
        """Says which version was loaded by other means, and forgets what was computed under the last one."""
        await self._post("/update_weight_version", {"new_version": str(version)})
        await self._post("/reset_prefix_cache")

    async def world_size(self) -> int:
        """Number of the server's worker processes, each with a GPU of its own."""
        path = "/get_world_size"
        size: int = _decode(_worlds, await self._call("GET", path), path).world_size
        return size

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Generation stands still while the context lasts; calls in flight keep what they have."""
        await self._post("/pause?mode=keep")
        try:
            yield
        finally:
            await self._post("/resume")

    async def version(self) -> str:
        """What the last `load` stamped; `default` for a server that none has reached since it started."""
        answer = _decode(_infos, await self._call("GET", "/weight_info", timeout_s=_LOOK_S), "/weight_info")
        return str(answer.weight_version)

    async def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probs, in nats, that the server gives to every token after the first: L token ids give L - 1 values."""
        self.probed += len(sequences)  # one token is sampled after each
        return [await self._sequence_log_probs(list(ids)) for ids in sequences]

    async def generated_tokens(self) -> int:
        """Tokens that the server has sampled since it started, over all its engines."""
        lines = (await self._call("GET", "/metrics")).decode().splitlines()
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(GENERATED)]
        if not values:
            raise EngineError(f"vLLM at {self._url} has no metric {GENERATED}; start it without --disable-log-stats")
        return int(sum(values))

    async def close(self) -> None:
        """Closes connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _sequence_log_probs(self, ids: list[int]) -> list[float]:
        path = "/v1/completions"
        body = {"model": self._name, "prompt": ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        answer = _decode(_completions, await self._post(path, body), path)
        scored = zip(ids[1:], answer.choices[0].prompt_logprobs[1:], strict=True)
        return [by_id[str(token)].logprob for token, by_id in scored if by_id is not None]

    async def _is_healthy(self) -> bool:
        try:
            await self._call("GET", "/health")
        except EngineError:
            return False
        return True

    async def _post(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        return await self._call("POST", path, body)

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None, timeout_s: float = _TIMEOUT_S) -> bytes:
        if self._http is None:
            # Calls are rare, and the server drops idle connections: a kept one would fail about when it is needed.
            connector = aiohttp.TCPConnector(force_close=True)
            self._http = aiohttp.ClientSession(connector=connector)
        limit = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._http.request(method, self._url + path, json=body, timeout=limit) as response:
                content = await response.read()
        except aiohttp.ConnectionTimeoutError as e:
            raise EngineError(f"vLLM at {self._url} takes no connections: {e}") from e
        except TimeoutError as e:
            raise Slow(f"vLLM at {self._url} did not answer {path} within {timeout_s:g} s") from e
        except aiohttp.ClientError as e:
            raise EngineError(f"vLLM at {self._url} did not answer {path}: {e or type(e).__name__}") from e
        if response.status != 200:
            raise EngineError(
                f"vLLM at {self._url} answered {response.status} to {path}: {content[:300].decode(errors='replace')}"
            )
        return content


def _decode(decoder: msgspec.json.Decoder[Any], content: bytes, path: str) -> Any:
    try:
        return decoder.decode(content)
    except msgspec.DecodeError as e:
        raise EngineError(f"vLLM answered {path} in an unknown form: {e}") from None
