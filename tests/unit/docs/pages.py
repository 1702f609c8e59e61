"""What stands in the pages of docs/: fenced blocks with their marks, code within lines, links, headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPO = Path(__file__).parents[3]
DOCS = REPO / "docs"

_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```$", re.M | re.S)
_MARK = re.compile(r"<!-- (run by|not run:) ([^>]*?) -->\s*\Z")
_COMMENT = re.compile(r"<!--.*?-->", re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: name of its page.
        language: as the fence says it.
        files: tests that run it, by the mark `<!-- run by FILES; not run: COMMANDS -->` before it.
        left_out: beginnings of commands in it that those do not run.
        why_not: the reason of `<!-- not run: WHY -->`, empty without that mark.
    """

    page: str
    language: str
    text: str
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    why_not: str = ""

    def __str__(self) -> str:
        return f"{self.page}, the block that begins with {self.text.strip().splitlines()[0]!r}"


@cache
def pages() -> dict[str, str]:
    """The text of every page, by its name."""
    return {page.name: page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))}


@cache
def blocks() -> tuple[Block, ...]:
    """Every fenced block of every page."""
    return tuple(block for name, text in pages().items() for block in blocks_of(name, text))


def blocks_of(name: str, text: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [_block(name, match[2], match[3], text[: match.start()]) for match in _FENCE.finditer(text)]


def _block(name: str, language: str, body: str, before: str) -> Block:
    mark = _MARK.search(before)
    if not mark:
        return Block(name, language, body)
    if mark[1] == "not run:":
        return Block(name, language, body, why_not=mark[2])
    files, _, rest = mark[2].partition("; not run: ")
    return Block(name, language, body, files=tuple(files.split()), left_out=tuple(filter(None, rest.split(", "))))


def prose(text: str) -> str:
    """A page without its fenced blocks and comments."""
    return _COMMENT.sub("", _FENCE.sub("", text))


def inline(text: str) -> list[str]:
    """Code within lines."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(text))]
