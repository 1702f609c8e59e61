"""Commands in running containers."""

from __future__ import annotations

import asyncio

from aiodocker.containers import DockerContainer

from services.orchestrator.backends.docker.container import USER_LABEL, WORKDIR_LABEL
from services.orchestrator.backends.docker.engine import asking
from services.orchestrator.backends.port import Ran
from shared.errors import SandboxError

OUTPUT_BYTES = 1 << 20
_SAY_PID = 'echo $$ && cd "$1" && shift && exec "$@"'  # docker tells a process's number outside of the container only
_KILL = 'kill -9 "$1"'
_CLEAN_UP_S = 10.0


async def run_command(container: DockerContainer, argv: list[str], timeout_s: float) -> Ran:
    """See `Backend.run`."""
    what = f"running {argv[0]} in the sandbox"
    output = bytearray()
    with asking(what):
        labels = (await container.show())["Config"]["Labels"]
        user, workdir = labels[USER_LABEL], labels[WORKDIR_LABEL]
        command = ["/bin/sh", "-c", _SAY_PID, "sh", workdir, *argv]
        try:
            async with asyncio.timeout(timeout_s) as limit:
                code = await _execute(container, command, user, output)
        except TimeoutError:
            if not limit.expired():
                raise
            await _kill(container, bytes(output).partition(b"\n")[0])
            raise SandboxError(f"the command did not end within {timeout_s:g} s: {' '.join(argv)[-200:]}") from None
    return Ran(code, bytes(output).partition(b"\n")[2][:OUTPUT_BYTES])


async def _execute(container: DockerContainer, argv: list[str], user: str, output: bytearray) -> int:
    command = await container.exec(argv, user=user)
    async with command.start(detach=False) as stream:
        while (message := await stream.read_out()) is not None:
            output += message.data[: OUTPUT_BYTES + 64 - len(output)]
    return int((await command.inspect())["ExitCode"])


async def _kill(container: DockerContainer, pid: bytes) -> None:
    if pid.isdigit():
        async with asyncio.timeout(_CLEAN_UP_S):
            await _execute(container, ["/bin/sh", "-c", _KILL, "sh", pid.decode()], "0:0", bytearray())
