"""The NATS client, made deaf by nothing that a stranger publishes."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.protocol import parser

from shared.bus.refusals import Refused, refusal_in
from shared.bus.streams import is_kept
from shared.trace.context import HEADER

T = TypeVar("T")

STRAYS = "strays"
"""Queue of the subscriptions that are given what a stream takes, too, and have no use for it."""
_INBOX = b"_INBOX."

# The server ends a subject at a blank, a tab or a line end only, nats-py at a form feed and a vertical tab as well: it takes
# the line for no line, hangs up, and is sent the same message again.
parser.MSG_RE = re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+([^ \t\r\n]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)\r\n")
parser.HMSG_RE = re.compile(rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+([^ \t\r\n]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)[ \t]+(\d+)\r\n")

_TRACE = re.compile(rb"\r\n%b: *([0-9a-f-]{55}) *\r\n" % HEADER.encode(), re.IGNORECASE)


class SteadyClient(Client):
    """nats-py's client stops reading for good at the first subject or header that it cannot decode. Here such subjects are
    readable, if not what they were, and headers are read only of what the server sends to an inbox of ours: of a published
    message nobody here asks for more than its trace, and a status among them would pass for the server's own word.

    What the server refuses to a user raises `Refused` where it was asked for, and at once.

    Args:
        demands_tls: hang up on a server that does not offer it, whatever stands between here and there.
    """

    def __init__(self, *, demands_tls: bool = False) -> None:
        super().__init__()
        self._demands_tls = demands_tls
        self._refusable: defaultdict[str, set[asyncio.Future[Any]]] = defaultdict(set)

    async def request(
        self, subject: str, payload: bytes = b"", timeout: float = 0.5, old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:  # fmt: skip
        with self._refused(subject) as refused:
            return await _unless(refused, super().request(subject, payload, timeout, old_style, headers))

    async def allowed(self, subject: str, timeout_s: float) -> None:
        """Returns when the server has taken the subscriptions that were made.

        Raises:
            Refused: the one to `subject` was not.
            nats.errors.Error: the server does not say.
        """
        with self._refused(subject) as refused:
            await _unless(refused, self.flush(max(1, round(timeout_s))))

    @contextmanager
    def _refused(self, subject: str) -> Iterator[asyncio.Future[Any]]:
        """What fails when the server refuses a subject."""
        future = asyncio.get_running_loop().create_future()
        self._refusable[subject].add(future)
        try:
            yield future
        finally:
            self._refusable[subject].discard(future)
            if not self._refusable[subject]:
                del self._refusable[subject]
            if not future.cancel():
                future.exception()  # what was asked for ended all the same

    async def _process_err(self, err_msg: str) -> None:
        if refusal := refusal_in(err_msg):
            # nats-py gives it in small letters. Without its inbox, which bears the user's name, no request can be answered.
            inbox = self._inbox_prefix.decode()
            deaf = refusal.verb == "subscription" and refusal.subject.startswith(f"{inbox}.".lower())
            for subject, futures in self._refusable.items():
                for future in futures if deaf or subject.lower() == refusal.subject.lower() else ():
                    if not future.done():
                        future.set_exception(Refused(refusal.verb, f"{inbox}.>" if deaf else subject))
        await super()._process_err(err_msg)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if self._demands_tls and initial_connection and not info.get("tls_required"):
            raise nats.errors.Error("the server does not offer TLS, which bus.url demands")
        await super()._process_info(info, initial_connection)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        subscription = self._subs.get(sid)
        if subscription is not None and subscription.queue == STRAYS and is_kept(subject):
            return
        readable = subject.decode(errors="replace").encode()
        heeded = headers if headers is None or subject.startswith(_INBOX) else _trace_in(headers)
        await super()._process_msg(sid, readable, reply, data, heeded)  # type: ignore[arg-type] # None it is, without any


def _trace_in(headers: bytes) -> bytes | None:
    """The trace context among a message's headers, if there is one by the letter, and no other."""
    found = _TRACE.search(headers)
    return b"NATS/1.0\r\n%b: %b\r\n\r\n" % (HEADER.encode(), found[1]) if found else None


async def _unless(refused: asyncio.Future[Any], work: Awaitable[T]) -> T:
    """The result of some work, unless it is refused before."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, refused}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            refused.result()
        return await task
    finally:
        task.cancel()
