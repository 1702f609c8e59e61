"""What a server says when a user may not do something. It says so on the side: no answer to what was asked is to come."""

from __future__ import annotations

import re

import nats.errors

_SAID = re.compile(r"(?i)permissions violation for (publish|subscription) to \"(.*?)\"(?: using queue \"(.*?)\")?")


class Refused(nats.errors.Error):
    """A publish or a subscription that the server does not allow.

    Attributes:
        verb: `publish` or `subscription`.
        subject: of it.
    """

    def __init__(self, verb: str, subject: str) -> None:
        super().__init__(f"it may not {'publish on' if verb == 'publish' else 'listen to'} {subject}")
        self.verb, self.subject = verb, subject


def refusal_in(complaint: str) -> Refused | None:
    """The refusal that a server's complaint is, None if it is about something else."""
    said = _SAID.search(complaint)
    return Refused(said[1].lower(), said[2]) if said else None
