"""`openforge synth` with a harness as builder: react, Claude Code or Codex makes a task in a sandbox, through the proxy, which
records its work. Then a teacher does the task, and what it did becomes a row to learn from."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.synth.gates.rubric import CRITERIA
from tests.e2e.stacks import openforge
from tests.e2e.test_real_harnesses import need
from tests.scripted_models import KEY, Act, Asked, ScriptedModels, said
from tests.scripted_office import built, idea
from tests.unit.proxy.teachers import Answer, FakeTeacher

pytestmark = [pytest.mark.real, pytest.mark.slow]
SETTINGS = """
[run]
root = "runs"
[engine]
url = "{teacher}"
served_name = "strong-1"
[proxy]
mode = "teacher"
[synth]
generator = "models"
domains = ["claw"]
count = 1
to = "made"
[synth.gates]
repeats = 1
[synth.models]
harness = "{harness}"
[synth.models.proposer]
model = "m-1"
base_url = "{url}/v1"
key_env = "THE_KEY"
[synth.models.judge]
model = "m-2"
api = "anthropic"
base_url = "{url}"
key_env = "THE_KEY"
"""
WRITE = """python3 - <<'END'
import base64, json, pathlib
for path, text in json.loads(base64.b64decode('{files}')).items():
    file = pathlib.Path('task', path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
END
ls -R task | head -40"""
SHELLS = {"bash": "command", "Bash": "command", "exec_command": "cmd"}
"""The argument that a command is given as, by the name that a program has for its shell."""


class Strong(FakeTeacher):
    """Builds a task: writes it, has it checked, and is done. Does a task: by its solution, which it knows by heart."""

    def answer(self, body: dict[str, Any]) -> Answer:
        """The next command."""
        made = built(7)
        files = {file["path"]: file["content"] for file in made["files"]} | {"instruction.md": made["instruction"]}
        coded = base64.b64encode(json.dumps(files).encode()).decode()
        builds = "python3 check.py task" in json.dumps(body["messages"])
        commands = (WRITE.format(files=coded), "python3 check.py task") if builds else (files["solution/solve.sh"],)
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        if turn == len(commands):
            return Answer("", ["That is done."], [])
        tools = body.get("tools", [])
        tools.sort(key=lambda tool: tool["function"]["name"] not in SHELLS)  # the first one is called
        if not tools:
            return Answer("", ["A task."], [])  # what a program asks besides
        return Answer("", [], [json.dumps({SHELLS[tools[0]["function"]["name"]]: commands[turn]})])


def script(asked: Asked) -> Act:
    """Proposes, finds nothing against a task, and would have others learn from any conversation."""
    fields = set((asked.schema or {})["properties"])
    if "brief" in fields:
        return said(idea(7))
    if "criteria" in fields:
        return said({"criteria": [{"name": name, "why": "so it is", "holds": True} for name in CRITERIA]})
    return said({"keep": True, "why": "it read before it wrote"})


@pytest.fixture
async def endpoints(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[ScriptedModels, Strong]]:
    if not shutil.which("bwrap"):
        pytest.fail("bubblewrap is missing: apt-get install -y bubblewrap")
    monkeypatch.setenv("THE_KEY", KEY)
    proposer, builder = ScriptedModels(script), Strong()
    await proposer.start()
    await builder.start()
    yield proposer, builder
    await builder.stop()
    await proposer.stop()


@pytest.mark.timeout(600)
async def test_a_harness_builds_a_task_that_passes_every_gate_and_its_work_is_recorded(
    endpoints: tuple[ScriptedModels, Strong], tmp_path: Path
) -> None:
    proposer, builder = endpoints
    file, root = tmp_path / "synth.toml", str(tmp_path / "runs")
    file.write_text(SETTINGS.format(url=proposer.url, teacher=builder.url, harness="react"))
    await _builds("react", file, tmp_path)
    await _taught(file, tmp_path / "made", root)


@pytest.mark.harness
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_programs_of_others_build_tasks_as_well(
    name: str, endpoints: tuple[ScriptedModels, Strong], tmp_path: Path
) -> None:
    need(name)
    proposer, builder = endpoints
    file = tmp_path / "synth.toml"
    file.write_text(SETTINGS.format(url=proposer.url, teacher=builder.url, harness=name))
    await _builds(name, file, tmp_path)


async def _builds(name: str, file: Path, folder: Path) -> None:
    """A harness makes the one task, and its work becomes a row."""
    code, told = await openforge("synth", str(file), timeout_s=400)
    assert code == 0, told
    (made,) = (folder / "made").glob("[!.]*/task.toml")
    assert (made.parent / "instruction.md").read_text() == built(7)["instruction"]
    (run,) = (folder / "runs").iterdir()
    out = folder / "rows"
    root = str(folder / "runs")
    code, told = await openforge("export", run.name, "--to", "sft", "--harness", name, "--out", str(out), "--root", root)
    assert code == 0, told
    rows = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
    [row] = [row for row in rows if "The task is as it has to be." in json.dumps(row["messages"])]
    assert row["reward"] == 1.0


async def _taught(file: Path, made: Path, root: str) -> None:
    """What a teacher does on the accepted tasks becomes rows, as far as the judge agrees."""
    code, told = await openforge("eval", str(file), "--set", f"tasks.heldout={made}", "--set", "run.id=lessons", "-n", "1")
    assert code == 0, told
    code, told = await openforge("synth", "sft", "lessons", "--root", root)
    assert code == 0, told
    assert "the judge kept 1 of 1 successes" in told
    (row,) = [json.loads(line) for line in (Path(root) / "lessons/exports/sft/train.jsonl").read_text().splitlines()]
    assert [message["role"] for message in row["messages"][-4:]] == ["user", "assistant", "tool", "assistant"]
