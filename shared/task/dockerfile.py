"""The little that has to be known of a Dockerfile. Pure."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_CONTINUED = re.compile(r"[\\`][ \t]*\n")


def instructions(text: str) -> list[tuple[str, str]]:
    """Instructions of a Dockerfile in order: name in capitals, and the rest with continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = _CONTINUED.sub(" ", "\n".join(lines))
    words = (line.strip().split(None, 1) for line in joined.splitlines())
    return [(word[0].upper(), word[1].strip() if len(word) > 1 else "") for word in words if word]


def workdir(text: str) -> str | None:
    """Working folder that the last stage sets; None if it sets none, or one that only a build could tell."""
    found: PurePosixPath | None = None
    for name, rest in instructions(text):
        if name == "FROM":
            found = None
        elif name == "WORKDIR":
            found = (found or PurePosixPath("/")) / rest.strip("\"'")
    return None if found is None or "$" in str(found) else str(found)
