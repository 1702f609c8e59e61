"""`react`: the small ReAct agent that ships with the project, `programs/react.py`.

Metadata of a task that it reads: `max_turns` (model calls, default 8), `output_chars` (of a tool result, default 4000).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from services.orchestrator.harnesses import Launch, Request
from services.orchestrator.sandbox import PATH
from shared.errors import HarnessError

PROGRAM = Path(__file__).parent / "programs" / "react.py"
DEFAULTS = {"max_turns": 8, "output_chars": 4000}


class React:
    """The program is copied into the home folder, so that it starts in every kind of sandbox."""

    def launch(self, request: Request) -> Launch:
        python, read_only = _python()
        home = request.home
        return Launch(
            argv=(python, "-I", "-S", f"{home}/react.py", f"{home}/instruction.md"),
            env={
                "OPENAI_BASE_URL": request.base_url, "OPENAI_MODEL": request.model, "OPENAI_API_KEY": "none",
                "MAX_TURNS": _count(request.metadata, "max_turns"), "OUTPUT_CHARS": _count(request.metadata, "output_chars"),
            },
            files={"react.py": _program(), "instruction.md": request.instruction},
            read_only=read_only,
        )  # fmt: skip


def _count(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key, DEFAULTS[key])
    if not isinstance(value, int) or value < 1:
        raise HarnessError(f"the task's metadata.{key} is {value!r}; expected a whole number from 1")
    return str(value)


@cache
def _program() -> str:
    return PROGRAM.read_text(encoding="utf-8")


@cache
def _python() -> tuple[str, tuple[Path, ...]]:
    """A Python that sandboxes have anyway, else the one that runs this."""
    found = shutil.which("python3", path=PATH)
    if found and Path(found).resolve().is_relative_to("/usr"):
        return found, ()
    return str(Path(sys.executable).resolve()), (Path(sys.base_prefix),)
