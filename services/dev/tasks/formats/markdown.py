"""QwenClawBench and PinchBench: a markdown file a task, with front matter, `## Prompt` and `## Automated Checks`.

The checks are a Python function `grade(transcript, workspace_path)` that returns scores by name; the reward is their mean. What
a model would have to judge (`## LLM Judge Rubric`) is left out and named.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from services.dev.tasks.draft import Draft, Item, folder_name, inner_path, texts_of, unjudged
from services.dev.tasks.rows import files_of, read_text
from shared.errors import TaskError
from shared.task.folder import COMPOSE

ABOUT = "QwenClawBench or PinchBench tasks (markdown: front matter, ## Prompt, ## Automated Checks)"
WORKSPACE = "/workspace"
SECTIONS = ("Prompt", "Expected Behavior", "Grading Criteria", "Automated Checks", "LLM Judge Rubric", "Additional Notes",
            "Workspace Files")  # fmt: skip
"""Only these begin a section: a prompt may have headings of its own."""
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*\n(.*)\Z", re.DOTALL)
_HEADING = re.compile(rf"^## ({'|'.join(SECTIONS)})[ \t]*$", re.MULTILINE)
_TEST = '#!/bin/sh\nexec python3 "$TESTS_DIR/grade.py"\n'
_GRADE = '''"""Runs the task's own checks; what they raise leaves no reward."""

import json
import math
import os

from checks import grade

scores = grade([], os.environ["APP_DIR"])  # no transcript: the calls are recorded outside of the sandbox
numbers = [float(score) for score in scores.values() if isinstance(score, (int, float))]
if not numbers or not all(map(math.isfinite, numbers)):
    raise SystemExit(f"the checks gave no scores: {scores!r}")
print(json.dumps(scores, indent=1))
with open(os.path.join(os.environ["LOGS_DIR"], "verifier", "reward.json"), "w") as file:
    json.dump({"reward": sum(numbers) / len(numbers)}, file)
'''


def fits(source: Path) -> bool:
    """See `Format.fits`."""
    return any(_looks(file) for file in files_of(source, ".md"))


def items(source: Path) -> Iterator[Item]:
    """See `Format.items`."""
    for file in files_of(source, ".md"):
        if source.is_file() or _looks(file):
            yield Item(file.name, partial(_draft_of, file))


def draft(text: str, assets: list[Path]) -> Draft:
    """One task.

    Args:
        text: of the file.
        assets: folders that may hold its files, in the order in which they are looked into.

    Raises:
        TaskError: front matter, prompt or a file is missing, or the checks are no Python.
    """
    front, sections = parse(text)
    (number,) = texts_of(front, "id")
    name = folder_name(number)
    texts, copies = _workspace(front, assets)
    kind = str(front.get("grading_type", "automated"))
    code = None if kind == "llm_judge" else checks(text)
    needs = [] if code else ["a judge"]
    texts |= {"instruction.md": sections["Prompt"] + "\n", "tests/test.sh": _TEST if code else unjudged(needs)}
    if code:
        texts |= {"tests/checks.py": code, "tests/grade.py": _GRADE}
    metadata = {"category": str(front.get("category", "")), "grading": kind} | ({"needs": needs} if needs else {})
    if code and kind == "hybrid":
        metadata["left_out"] = "what a model would judge; the reward is the mean of the automated checks"
    limit = front.get("timeout_seconds")
    return Draft(
        name=name,
        toml={
            "schema_version": "1.4", "metadata": metadata,
            "agent": {"timeout_sec": float(limit)} if isinstance(limit, int | float) and limit > 0 else {},
            "environment": {"workdir": WORKSPACE},
        },
        texts=texts, copies=copies,
    )  # fmt: skip


def parse(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Front matter, and the sections by name.

    Raises:
        TaskError: either is missing.
    """
    match = _FRONT.match(text)
    if not match:
        raise TaskError("no front matter between two lines of ---")
    try:
        front = yaml.safe_load(match[1] + "\n")
    except yaml.YAMLError as e:
        raise TaskError(f"front matter: not valid YAML: {' '.join(str(e).split())}") from None
    if not isinstance(front, dict):
        raise TaskError("front matter: expected a table")
    parts = _HEADING.split(match[2])
    sections: dict[str, str] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        sections.setdefault(name, body.strip())
    if not sections.get("Prompt"):
        raise TaskError("no ## Prompt, or nothing in it")
    return front, sections


def checks(text: str) -> str | None:
    """The Python code of `## Automated Checks`; None if there is no such section.

    The code may hold lines of ``` itself, so the block ends at the first of them up to which it is Python that defines `grade`.

    Raises:
        TaskError: there is no such block.
    """
    start = re.search(r"^## Automated Checks[ \t]*$", text, re.MULTILINE)
    if not start:
        return None
    _, fence, rest = text[start.end() :].partition("```python\n")
    lines = rest.splitlines(keepends=True)
    for number, line in enumerate(lines if fence else []):
        if line.rstrip() == "```" and _defines_grade(code := "".join(lines[:number])):
            return code
    raise TaskError("## Automated Checks: no block of Python that defines grade()")


def _defines_grade(code: str) -> bool:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == "grade" for node in tree.body)


def _workspace(front: dict[str, Any], assets: list[Path]) -> tuple[dict[str, str], dict[str, Path]]:
    """Files of the working folder: given as texts, or as files of the source."""
    texts: dict[str, str] = {}
    copies: dict[str, Path] = {}
    for entry in front.get("workspace_files") or []:
        if not isinstance(entry, dict):
            raise TaskError(f"workspace_files: {entry!r} is not a table")
        if (target := entry.get("dest", entry.get("path"))) in ("Dockerfile", *COMPOSE):
            raise TaskError(f"workspace_files: a task folder cannot give its working folder a file of the name {target}")
        if "content" in entry:
            texts[f"environment/{inner_path(entry.get('path'), 'workspace_files')}"] = str(entry["content"])
            continue
        source, target = (inner_path(entry.get(key), f"workspace_files.{key}") for key in ("source", "dest"))
        found = next((path for folder in assets if (path := folder / source).exists()), None)
        if found is None:
            raise TaskError(f"workspace_files: there is no {source} among the assets")
        copies[f"environment/{target}"] = found
    return texts, copies


def _draft_of(file: Path) -> Draft:
    top = file.parent.parent if file.parent.name == "tasks" else file.parent
    return draft(read_text(file), [top / "assets" / file.stem, top / "assets", top / "generated_assets"])


def _looks(file: Path) -> bool:
    try:
        text = read_text(file)
    except TaskError:
        return False
    return text.startswith("---") and "\n## Prompt" in text and file.stem != "TASK_TEMPLATE"
