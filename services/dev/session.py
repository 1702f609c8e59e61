"""`openforge session`: rollouts of a runner of one's own, recorded by a stack that runs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec

from services.dev.stack import Running, find_running
from services.orchestrator.harnesses.adapter import load
from services.orchestrator.harnesses.library import adapter_files
from services.proxy.control import SESSIONS
from services.proxy.own_bodies import Closed, Created, Reward, Wanted
from shared.config import Config
from shared.errors import ConfigError, ForgeError
from shared.ids import check_id
from shared.roles import RoleRule

REQUEST_S = 30.0
T = TypeVar("T")


class _Refusal(msgspec.Struct):
    detail: str


async def create(root: Path, run_id: str, wanted: Wanted, *, as_json: bool) -> int:
    """Creates a session and prints how to reach it, as lines for a shell's `eval` or as JSON.

    Raises:
        ForgeError: no stack runs under `root`, or its proxy refused.
    """
    stack = find_running(root, run_id)
    roles = _roles(wanted.harness, stack[0].orchestrator.harness_dir)
    made = await _post(stack, "", msgspec.json.encode(msgspec.structs.replace(wanted, roles=roles)), Created)
    sys.stdout.write(msgspec.json.encode(made).decode() + "\n" if as_json else shell_lines(made))
    return 0


async def reward(root: Path, run_id: str, session_id: str, value: float) -> int:
    """Sets the reward of a session.

    Raises:
        ForgeError: as `create`.
    """
    path = f"/{check_id(session_id, 'session id')}/reward"
    kept = await _post(find_running(root, run_id), path, msgspec.json.encode({"reward": value}), Reward)
    sys.stdout.write(f"{session_id}: reward {kept.reward:g}\n")
    return 0


async def end(root: Path, run_id: str, session_id: str) -> int:
    """Ends a session and prints what was recorded; returns 1 when it has no reward, and so gives nothing to learn from.

    Raises:
        ForgeError: as `create`.
    """
    closed = await _post(find_running(root, run_id), f"/{check_id(session_id, 'session id')}/end", b"", Closed)
    scored = "no reward" if closed.reward is None else f"reward {closed.reward:g}"
    counts = {"errored": closed.errored, "cut": closed.cut, "lost": closed.lost}
    odd = "".join(f", {len(numbers)} {name}" for name, numbers in counts.items() if numbers)
    sys.stdout.write(f"{session_id}: {scored}, calls {closed.calls}{odd}\n")
    return 1 if closed.reward is None else 0


def shell_lines(made: Created) -> str:
    """`export` lines: the variables of the harness, and the session's id for what follows."""
    env = {"OPENFORGE_SESSION": made.session_id} | made.env
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())


def _roles(harness: str, folder: str) -> list[RoleRule]:
    """The rules of the adapter of that name, where there is one: they hold whoever launches the program."""
    file = adapter_files(folder).get(harness)
    return [] if file is None else load(file).roles


async def _post(stack: tuple[Config, Running], path: str, body: bytes, answer: type[T]) -> T:
    config, running = stack
    url = f"http://{config.proxy.host}:{config.proxy.control_port}"
    headers = {"authorization": f"Bearer {running.env[config.proxy.control_key_env]}", "content-type": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S), headers=headers) as http,
            http.post(f"{url}{SESSIONS}{path}", data=body) as response,
        ):
            content = await response.read()
            if response.status == 200:
                return msgspec.json.decode(content, type=answer)
            raise ConfigError(_detail(content))
    except (aiohttp.ClientError, TimeoutError) as e:
        raise ForgeError(f"the proxy at {url} does not answer ({type(e).__name__}); try again, it may be restarting") from None


def _detail(content: bytes) -> str:
    try:
        return msgspec.json.decode(content, type=_Refusal).detail
    except msgspec.DecodeError:
        return content[:300].decode(errors="replace")
