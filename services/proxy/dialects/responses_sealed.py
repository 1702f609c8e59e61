"""Reasoning in the `encrypted_content` of an item: opaque to a harness, readable here."""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress

from services.proxy.errors import bad_request

_MARK = "openforge:"


def seal(reasoning: str) -> str:
    """Reasoning as the `encrypted_content` of an item.

    Some harnesses return nothing else of a reasoning item. It holds the text itself, so that any proxy can read it back.
    """
    return _MARK + base64.b64encode(reasoning.encode()).decode()


def is_sealed(content: str) -> bool:
    """Whether `seal` wrote it."""
    return content.startswith(_MARK)


def unseal(content: str) -> str:
    """The reasoning in an `encrypted_content`.

    Raises:
        Refused: it was not written here.
    """
    if is_sealed(content):
        with suppress(binascii.Error, UnicodeDecodeError):
            return base64.b64decode(content.removeprefix(_MARK), validate=True).decode()
    raise bad_request("input: the `encrypted_content` of a reasoning item was not written by this server and cannot be read")
