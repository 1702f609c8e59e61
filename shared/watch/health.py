"""Whether a service can do its work: it lives if it answers at all, and is ready if it has all that it depends on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shared.errors import ForgeError

READY_S = 3.0
"""How long each thing that a service depends on may take to answer; a probe should wait longer."""

Check = Callable[[], Awaitable[object]]
"""Returns if it is there; raises a ForgeError that says what is wrong."""


class Health:
    """What a service depends on.

    Attributes:
        checks: by name (`bus`, `store`, `engine`).
        state: why the service takes no work, whatever it has; empty while it does.
    """

    def __init__(self, **checks: Check) -> None:
        self.checks: dict[str, Check] = dict(checks)
        self.state = ""

    async def missing(self) -> dict[str, str]:
        """What is not there, with the reason; empty if the service is ready."""
        reasons = await asyncio.gather(*(_reason(check) for check in self.checks.values()))
        own = {"service": self.state} if self.state else {}
        return own | {name: reason for name, reason in zip(self.checks, reasons, strict=True) if reason}


async def _reason(check: Check) -> str:
    try:
        async with asyncio.timeout(READY_S):
            await check()
    except TimeoutError:
        return f"no answer within {READY_S:g} s"
    except ForgeError as e:
        return str(e)
    return ""
