"""What mkdocs does to pages besides: the marks before blocks of commands become a line that readers see."""

from __future__ import annotations

import re
from typing import Any

_MARKED = re.compile(r"^<!-- (?:(run by)|(not run:)) ([^>]*?) -->\n+(```.*?^```)$", re.M | re.S)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    return _MARKED.sub(_shown, markdown)


def _shown(match: re.Match[str]) -> str:
    by, _, what, block = match.groups()
    files, _, rest = what.partition("; not run: ")
    said = f"Run by {', '.join(files.split())}." if by else f"No test runs this: {what}."
    said += f" Not run: {rest}." if by and rest else ""
    return f'{block}\n\n<p class="mark">{said}</p>'
