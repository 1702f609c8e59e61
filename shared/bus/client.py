"""The NATS client, made deaf by nothing that a stranger publishes."""

from __future__ import annotations

import re

from nats.aio.client import Client
from nats.protocol import parser

from shared.bus.streams import is_kept

STRAYS = "strays"
"""Queue of the subscriptions that are given what a stream takes, too, and have no use for it."""
_INBOX = b"_INBOX."

# The server ends a subject at a blank, a tab or a line end only, nats-py at a form feed and a vertical tab as well: it takes
# the line for no line, hangs up, and is sent the same message again.
parser.MSG_RE = re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+([^ \t\r\n]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)\r\n")
parser.HMSG_RE = re.compile(rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+([^ \t\r\n]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)[ \t]+(\d+)\r\n")


class SteadyClient(Client):
    """nats-py's client stops reading for good at the first subject or header that it cannot decode. Here such subjects are
    readable, if not what they were, and headers are read only of what the server sends to an inbox of ours: nobody here asks
    for those of a published message, and a status among them would pass for the server's own word."""

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        subscription = self._subs.get(sid)
        if subscription is not None and subscription.queue == STRAYS and is_kept(subject):
            return
        readable = subject.decode(errors="replace").encode()
        heeded = headers if subject.startswith(_INBOX) else None
        await super()._process_msg(sid, readable, reply, data, heeded)  # type: ignore[arg-type] # None it is, without any
