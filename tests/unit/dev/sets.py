"""Sets in other formats, made up here, each exactly as the format has it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

CHECKS = '''def grade(transcript: list, workspace_path: str) -> dict:
    from pathlib import Path
    note = """
```
not the end of the block
```
"""
    found = Path(workspace_path, "answer.txt")
    return {"there": float(found.is_file()), "right": float(found.is_file() and "42" in found.read_text()), "why": note}
'''
MARKDOWN = f"""---
id: task_00001_the_answer
name: The Answer
category: files
grading_type: hybrid
grading_weights:
  automated: 0.4
  llm_judge: 0.6
timeout_seconds: 120
workspace_files:
- source: data/question.txt
  dest: in/question.txt
- path: notes.md
  content: |
    # Notes
---

## Prompt

Read `in/question.txt` and write the answer to `answer.txt`.

## Format of the file

One number.

## Expected Behavior

It writes 42.

## Automated Checks

```python
{CHECKS}```

## LLM Judge Rubric

Was it kind?
"""
WEBVOYAGER = [
    {"web_name": "Encyclopedia", "id": "Encyclopedia--0", "ques": "How high is the hill?", "web": "https://hills.example/"},
    {"web_name": "Encyclopedia", "id": "Encyclopedia--1", "ques": "", "web": "https://hills.example/"},
]
MIND2WEB = [
    {
        "task_id": "0a1b2c", "confirmed_task": "Find the cheapest blue kite.", "website": "https://kites.example/",
        "reference_length": 5, "level": "easy",
    }
]  # fmt: skip
OSWORLD = {
    "id": "1111-2222", "snapshot": "libreoffice_calc", "instruction": "Sum the column.", "source": "https://help.example/1",
    "config": [{"type": "open", "parameters": {"path": "/home/user/a.xlsx"}}], "trajectory": "trajectories/",
    "related_apps": ["libreoffice_calc"], "evaluator": {"func": "compare_table", "result": {"type": "vm_file"}},
}  # fmt: skip
ATLAS = {
    "TASK": "6a7b", "PROMPT": "How many\nmuseums are there?", "ENABLED_TOOLS": json.dumps(["met_search", {"name": "osm_find"}]),
    "GTFA_CLAIMS": "['There are 3 museums.', \"It's said twice.\"]", "TRAJECTORY": "[]",
}  # fmt: skip
CLAW = """
task_id: T001_inbox
task_name: Inbox
category: workflow
difficulty: easy
services:
  - name: gmail
    command: python mock_services/gmail/server.py
    port: 9100
prompt:
  text: |
    How many letters are there?
  language: en
tools:
  - name: gmail_list_messages
    description: lists
sandbox_files:
  - fixtures/inbox.json
  - fixtures/video.webm
local_grader_files:
  - fixtures/inbox.json
  - fixtures/truth.json
env_snapshot_files:
  - /workspace/out/*.png
environment:
  timeout_seconds: 900
judge_rubric: Is it right?
"""
SETUP = """import sys, pathlib
folder = pathlib.Path(sys.argv[1])
(folder / "in").mkdir()
(folder / "in" / "a.txt").write_text("7\\n")
"""


def put(folder: Path, files: dict[str, str]) -> Path:
    """Writes files by their paths."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def markdown(folder: Path, text: str = MARKDOWN) -> Path:
    """A set of one markdown task, with its asset."""
    name = "task_00001_the_answer"
    return put(folder, {f"tasks/{name}.md": text, f"assets/{name}/data/question.txt": "6 * 7?\n", "README.md": "# Set\n"})


def atlas(folder: Path) -> Path:
    """A file of two rows; the second has no prompt."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ATLAS)
        writer.writeheader()
        writer.writerows([ATLAS, {**ATLAS, "TASK": "8c9d", "PROMPT": ""}])
    return folder


def claw(folder: Path) -> Path:
    """One task, one of whose files is missing."""
    parts = {
        "task.yaml": CLAW, "grader.py": "import claw_eval\n", "fixtures/inbox.json": "[]", "fixtures/truth.json": "[0]",
    }  # fmt: skip
    return put(folder, {f"tasks/T001_inbox/{path}": text for path, text in parts.items()})


def lines(folder: Path, rows: list[dict[str, str]]) -> Path:
    """JSON lines, the last of which is no JSON."""
    return put(folder, {"rows.jsonl": "\n".join([*map(json.dumps, rows), "{oops"])})


def harbor(folder: Path, **files: str) -> Path:
    """Two equal names in two parts of a set."""
    task = {"task.toml": 'version = "1.0"\n', "instruction.md": "Do it.\n", "tests/test.sh": "#!/bin/sh\necho 1 > reward\n"}
    return put(folder, {f"{part}/same/{path}": text for part in ("one", "two") for path, text in {**task, **files}.items()})


def openclaw(folder: Path) -> Path:
    """A folder whose content a script makes, and whose answer is what the agent says."""
    parts = {
        "task.toml": 'version = "1.0"\n[environment]\nallow_internet = false\n', "instruction.md": "What is in a.txt?\n",
        "environment/setup_workspace.py": SETUP,
        "solution/solve.sh": "#!/bin/bash\nmkdir -p /workspace/.logs/agent\ncp in/a.txt /workspace/.logs/agent/response.txt\n",
        "tests/test.sh": "#!/bin/bash\nr=0\ngrep -qx 7 /logs/agent/response.txt && r=1\necho $r > $REWARD_DIR/reward.txt\n",
    }  # fmt: skip
    return put(folder, {f"tasks/sum/{path}": text for path, text in parts.items()})
