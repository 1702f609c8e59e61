"""What kind of task a task is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_LAST_NUMBER = re.compile(r"[-_.]?\d+(?=\D*$)")


def family_of(name: str, metadata: Mapping[str, Any]) -> str:
    """What a task is one of: the text `metadata.family`, else its name without the last number in it."""
    said = metadata.get("family")
    return said if isinstance(said, str) and said else _LAST_NUMBER.sub("", name)
