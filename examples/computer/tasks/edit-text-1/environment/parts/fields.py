"""Fields of forms: what may be entered into them."""

from __future__ import annotations

import re
from typing import Any

Field = dict[str, Any]
"""`name`, `label`, and `options`, or a `pattern` with the `hint` that says it; neither: any text. Perhaps `optional`."""


def complaint(field: Field, value: str) -> str:
    """What is wrong with a value, for people; empty if nothing is."""
    label = field["label"]
    if not value:
        return "" if field.get("optional") else f"{label}: please fill in."
    if "options" in field and value not in field["options"]:
        return f"{label}: please choose one of the list."
    if "pattern" in field and not re.fullmatch(field["pattern"], value):
        return f"{label}: {field['hint']}."
    return ""
