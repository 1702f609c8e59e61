"""JSON schemas of answers, as APIs with structured outputs want them. Pure."""

from __future__ import annotations

from typing import Any

import msgspec


def schema_of(kind: type[Any]) -> tuple[str, dict[str, Any]]:
    """Name and schema of a msgspec Struct: every field is required, and there are no others.

    Raises:
        TypeError: it has a field with a default, which an endpoint would have to send nevertheless.
    """
    whole = msgspec.json.schema(kind)
    parts: dict[str, Any] = whole.get("$defs", {})
    name = whole["$ref"].rpartition("/")[2]
    for part, schema in parts.items():
        if set(schema.get("required", ())) != set(schema["properties"]):
            raise TypeError(f"{part}: answers have no fields with defaults")
        schema["additionalProperties"] = False
        schema.pop("title", None)
    own = parts.pop(name)
    return name, own | ({"$defs": parts} if parts else {})
