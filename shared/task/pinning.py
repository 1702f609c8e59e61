"""What of an image could be another thing tomorrow: images and packages without a version. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_IMAGE = re.compile(r"^(?:--platform=\S+\s+)?(?P<image>\S+)")
_PIP = re.compile(r"\b(?:pip3?|uv pip) install\b(?P<what>[^&|;\n]*)")
_NPM = re.compile(r"\bnpm (?:install|i|add)\b(?P<what>[^&|;\n]*)")
_APT = re.compile(r"\bapt(?:-get)? (?:-\S+ )*install\b(?P<what>[^&|;\n]*)")
_TAKES = ("-r", "--requirement", "-c", "--constraint", "--index-url", "-i", "--extra-index-url", "-t", "--target", "--prefix")
"""Options with a value of their own."""


def loose(name: str, rest: str) -> list[tuple[str, str]]:
    """Of an instruction of a Dockerfile, what it takes without a version: that, and a sentence in which {} stands for it."""
    if name == "FROM":
        return [(image, "FROM {} names no version")] if (image := _open_image(rest)) else []
    if name != "RUN":
        return []
    found = [(words, "pip install of {} without a version") for words in _words(_PIP, rest, r"==|@|\$|\.(whl|txt|gz)$")]
    found += [(words, "npm install of {} without a version") for words in _words(_NPM, rest, r".@\d|^\$|\.tgz$")]
    return found + [(words, "apt-get install of {} without a version") for words in _words(_APT, rest, r"=|^\$")]


def _open_image(rest: str) -> str:
    match = _IMAGE.match(rest)
    image = match["image"] if match else ""
    tag = image.rpartition("/")[2].partition(":")[2]
    return image if image not in ("", "scratch") and "@" not in image and tag in ("", "latest") else ""


def _words(command: re.Pattern[str], text: str, pinned: str) -> Iterator[str]:
    """For each such command the packages that it names without a version."""
    for match in command.finditer(text):
        words = match["what"].split()
        named = [word for before, word in zip(["", *words], words, strict=False) if before not in _TAKES]
        bare = [word.strip("\"'") for word in named if not word.startswith(("-", ".", "/", "<", ">", "\\"))]
        if free := [word for word in bare if word and not re.search(pinned, word)]:
            yield " ".join(free)
