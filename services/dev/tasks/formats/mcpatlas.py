"""MCP-Atlas: CSV rows `TASK`, `PROMPT`, `ENABLED_TOOLS`, `GTFA_CLAIMS`; tasks for tools of MCP servers, judged by claims."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.dev.tasks.draft import Draft, Item, folder_name, texts_of, unjudged
from services.dev.tasks.rows import files_of, first_row, items_of
from shared.errors import TaskError

ABOUT = "MCP-Atlas rows (CSV: TASK, PROMPT, ENABLED_TOOLS, GTFA_CLAIMS); they need its MCP servers and a judge"
NEEDS = ["the MCP servers of MCP-Atlas", "a judge of claims"]


def fits(source: Path) -> bool:
    """See `Format.fits`."""
    return any(_is_row(first_row(file)) for file in files_of(source, ".csv"))


def items(source: Path) -> Iterator[Item]:
    """See `Format.items`."""
    for file in files_of(source, ".csv"):
        if source.is_file() or _is_row(first_row(file)):
            yield from items_of(file, draft)


def draft(row: Any) -> Draft:
    """One row.

    Raises:
        TaskError: a field is missing, or no list where one is expected.
    """
    number, prompt, tools, claims = texts_of(row, "TASK", "PROMPT", "ENABLED_TOOLS", "GTFA_CLAIMS")
    name = folder_name(number)
    wanted = json.dumps(read_list("GTFA_CLAIMS", claims), indent=1, ensure_ascii=False)
    texts = {"instruction.md": prompt + "\n", "tests/test.sh": unjudged(NEEDS), "tests/claims.json": wanted}
    if (row.get("TRAJECTORY") or "").strip():
        texts["tests/trajectory.txt"] = row["TRAJECTORY"]
    return Draft(
        name=name,
        toml={
            "schema_version": "1.4", "task": {"name": f"mcp-atlas/{name}"},
            "metadata": {"tools": [_tool(tool) for tool in read_list("ENABLED_TOOLS", tools)], "needs": NEEDS},
        },
        texts=texts,
    )  # fmt: skip


def read_list(field: str, text: str) -> list[Any]:
    """A list as JSON, or as Python writes it: both are found in the rows.

    Raises:
        TaskError: it is neither.
    """
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(found, list):
            return found
    raise TaskError(f"{field}: expected a list, got {text[:60]!r}")


def _tool(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, dict) else tool
    if not isinstance(name, str):
        raise TaskError(f"ENABLED_TOOLS: {tool!r} is not a tool's name")
    return name


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and {"TASK", "PROMPT", "ENABLED_TOOLS"} <= row.keys()
