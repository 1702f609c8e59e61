"""Sets in other formats become task folders."""

from __future__ import annotations

import io
import json
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from services.dev.tasks.draft import Draft, folder_name, inner_path, unjudged
from services.dev.tasks.formats import FORMATS, format_of
from services.dev.tasks.formats.markdown import checks, parse
from services.dev.tasks.formats.mcpatlas import read_list
from services.dev.tasks.importing import Imported, needs_of, read_set
from services.dev.tasks.origin import UNKNOWN, origin_of
from services.dev.tasks.writer import write_task
from services.orchestrator.isolation import resolve_isolation
from shared.config import OrchestratorConfig
from shared.errors import TaskError
from shared.task import Task, load_task
from tests.unit.dev import sets


def imported(source: Path, to: Path, form: str = "") -> Imported:
    name, reader = format_of(source, form)
    return read_set(source, to, name, reader, origin_of(source), Console(file=io.StringIO()))


def only(done: Imported) -> Task:
    (folder,) = done.tasks
    return load_task(folder)


def test_a_markdown_task_has_its_files_prompt_and_checks(tmp_path: Path) -> None:
    done = imported(sets.markdown(tmp_path / "set"), tmp_path / "out")
    task = only(done)
    assert (done.form, done.refused, task.name, task.workdir) == ("qwenclawbench", [], "task_00001_the_answer", "/workspace")
    assert "## Format of the file" in task.instruction
    assert "42" not in task.instruction
    assert (task.environment_dir / "in/question.txt").read_text() == "6 * 7?\n"
    assert (task.environment_dir / "notes.md").read_text() == "# Notes\n"
    assert (task.tests_dir / "checks.py").read_text() == sets.CHECKS
    assert task.metadata["left_out"].startswith("what a model would judge")
    assert task.agent.timeout_sec == 120


def grade(task: Task, folder: Path) -> Path:
    """Runs the verifier without a sandbox; returns where its reward would lie."""
    (folder / "logs/verifier").mkdir(parents=True)
    env = {"PATH": "/usr/bin:/bin", "TESTS_DIR": str(task.tests_dir)}
    env |= {"APP_DIR": str(folder / "app"), "LOGS_DIR": str(folder / "logs")}
    subprocess.run([task.tests_dir / "test.sh"], env=env, check=False, capture_output=True)
    return folder / "logs/verifier/reward.json"


def test_the_reward_of_a_markdown_task_is_the_mean_of_its_checks(tmp_path: Path) -> None:
    task = only(imported(sets.markdown(tmp_path / "set"), tmp_path / "out"))
    for text, reward in (("", 0.0), ("41", 0.5), ("42", 1.0)):
        folder = tmp_path / f"run{text}"
        sets.put(folder / "app", {"answer.txt": text} if text else {"other": ""})
        assert json.loads(grade(task, folder).read_text()) == {"reward": reward}


def test_checks_that_raise_leave_no_reward(tmp_path: Path) -> None:
    text = sets.MARKDOWN.replace("    found = ", "    first = transcript[0]\n    found = ")
    task = only(imported(sets.markdown(tmp_path / "set", text), tmp_path / "out"))
    sets.put(tmp_path / "run/app", {"answer.txt": "42"})
    assert not grade(task, tmp_path / "run").exists()


def test_a_markdown_task_that_only_a_model_can_judge_leaves_no_reward(tmp_path: Path) -> None:
    done = imported(sets.markdown(tmp_path / "set", sets.MARKDOWN.replace("hybrid", "llm_judge")), tmp_path / "out")
    task = only(done)
    assert done.needs == {"a judge": 1}
    assert not grade(task, tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("---\nid", "id", "no front matter"),
        ("id: task_00001_the_answer\n", "", "id: expected a text"),
        ("timeout_seconds: 120", "timeout_seconds: [", "front matter: not valid YAML"),
        ("## Prompt", "## Request", "no ## Prompt"),
        ("def grade", "def judge", "no block of Python that defines grade"),
        ("data/question.txt", "data/gone.txt", "there is no data/gone.txt among the assets"),
        ("dest: in/question.txt", "dest: docker-compose.yml", "a file of the name docker-compose.yml"),
        ("dest: in/question.txt", "dest: ../question.txt", "'../question.txt' is not a path inside a folder"),
    ],
)
def test_a_markdown_task_that_is_broken_is_named_with_its_reason(tmp_path: Path, old: str, new: str, why: str) -> None:
    source = sets.markdown(tmp_path / "set", sets.MARKDOWN.replace(old, new, 1))
    done = imported(source, tmp_path / "out", "qwenclawbench")
    if new.startswith(("id", "## Request")):  # it does not look like one any more, unless the file itself is given
        done = imported(next(source.rglob("task_*.md")), tmp_path / "out", "qwenclawbench")
    ((place, reason),) = done.refused
    assert (place, done.tasks) == ("task_00001_the_answer.md", [])
    assert why in reason


def test_the_block_of_checks_ends_where_the_python_does() -> None:
    assert checks(sets.MARKDOWN) == sets.CHECKS
    assert checks("## Prompt\nx\n") is None
    assert set(parse(sets.MARKDOWN)[1]) == {"Prompt", "Expected Behavior", "Automated Checks", "LLM Judge Rubric"}


def test_rows_of_the_live_web_are_imported_and_leave_no_reward(tmp_path: Path) -> None:
    done = imported(sets.lines(tmp_path / "set", sets.WEBVOYAGER), tmp_path / "out")
    task = only(done)
    assert done.form == "webvoyager"
    assert [place for place, _ in done.refused] == ["rows.jsonl row 2", "rows.jsonl row 3"]
    assert "ques: expected a text" in done.refused[0][1]
    assert "not valid JSON" in done.refused[1][1]
    assert (task.name, task.network) == ("webvoyager/Encyclopedia--0", "public")
    assert task.instruction == "How high is the hill?\n\nStart at https://hills.example/\n"
    assert not grade(task, tmp_path / "run").exists()


def test_rows_of_online_mind2web(tmp_path: Path) -> None:
    task = only(imported(sets.put(tmp_path / "set", {"rows.json": json.dumps(sets.MIND2WEB)}), tmp_path / "out"))
    assert (task.name, task.metadata["level"], task.metadata["reference_length"]) == ("online-mind2web/0a1b2c", "easy", 5)


def test_rows_of_mcp_atlas_keep_their_tools_and_hide_their_claims(tmp_path: Path) -> None:
    done = imported(sets.atlas(tmp_path / "set"), tmp_path / "out")
    task = only(done)
    assert done.refused == [("rows.csv row 2", "PROMPT: expected a text that is not empty")]
    assert task.instruction == "How many\nmuseums are there?\n"
    assert task.metadata["tools"] == ["met_search", "osm_find"]
    assert json.loads((task.tests_dir / "claims.json").read_text()) == ["There are 3 museums.", "It's said twice."]
    assert task.metadata["needs"] == ["the MCP servers of MCP-Atlas", "a judge of claims"]


@settings(max_examples=40)
@given(st.lists(st.text(max_size=9) | st.integers(), max_size=5))
def test_lists_are_read_as_json_and_as_python_writes_them(values: list[str | int]) -> None:
    assert read_list("x", json.dumps(values)) == read_list("x", repr(values)) == values


def test_a_text_that_is_no_list_is_refused() -> None:
    for text in ("{}", "open('x')", "[", "1"):
        with pytest.raises(TaskError, match="expected a list"):
            read_list("GTFA_CLAIMS", text)


def test_an_osworld_task_keeps_its_judge_away_from_the_agent(tmp_path: Path) -> None:
    files = {
        "calc/1111-2222.json": json.dumps(sets.OSWORLD),
        "calc/broken.json": '{"evaluator": 1, "instruction": "x", "id": "y"}',
    }
    done = imported(sets.put(tmp_path / "set", files), tmp_path / "out")
    task = only(done)
    assert done.refused == [("broken.json", "evaluator: expected a table")]
    assert (done.form, task.metadata["snapshot"], task.instruction) == ("osworld", "libreoffice_calc", "Sum the column.\n")
    assert json.loads((task.tests_dir / "osworld.json").read_text()) == sets.OSWORLD


def test_a_claw_eval_task_says_what_it_needs(tmp_path: Path) -> None:
    task = only(imported(sets.claw(tmp_path / "set"), tmp_path / "out"))
    assert task.metadata["needs"] == [
        "the claw_eval package, which its grader imports", "the mock service gmail",
        "commands of the set that make what its grader looks at", "a judge",
        "the file fixtures/video.webm, which the source lacks",
    ]  # fmt: skip
    assert (task.environment_dir / "fixtures/inbox.json").read_text() == "[]"
    assert task.workdir == "/workspace"
    assert (task.tests_dir / "grader.py").is_file()
    assert [path.name for path in (task.tests_dir / "fixtures").iterdir()] == ["truth.json"]
    assert not (task.environment_dir / "fixtures/truth.json").exists()
    assert task.agent.timeout_sec == 900


def test_harbor_folders_keep_apart_what_has_the_same_name(tmp_path: Path) -> None:
    done = imported(sets.harbor(tmp_path / "set"), tmp_path / "out")
    assert [folder.name for folder in done.tasks] == ["one-same", "two-same"]
    assert (done.tasks[0] / "task.toml").read_text() == 'version = "1.0"\n'


def test_a_harbor_folder_that_is_no_task_is_named_and_nothing_of_it_stays(tmp_path: Path) -> None:
    source = sets.harbor(tmp_path / "set")
    (source / "two/same/tests/test.sh").unlink()
    done = imported(source, tmp_path / "out")
    ((place, why),) = done.refused
    assert (place, "no tests/test.sh" in why) == ("two/same", True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["one-same"]


@pytest.mark.slow
def test_a_setup_script_is_run_once_and_the_answer_is_asked_for_in_a_file(tmp_path: Path) -> None:
    task = only(imported(sets.openclaw(tmp_path / "set"), tmp_path / "out"))
    files = sorted(str(path.relative_to(task.folder)) for path in task.environment_dir.rglob("*") if path.is_file())
    assert files == ["environment/Dockerfile", "environment/in/a.txt"]
    assert (task.workdir, task.network) == ("/workspace", "none")
    assert task.verifier.env["REWARD_DIR"] == "/logs/verifier"
    assert task.instruction.endswith("Write your answer to the file /logs/agent/response.txt.\n")
    assert "/logs/agent/response.txt" in (task.folder / "solution/solve.sh").read_text()
    assert "changed: instruction.md" in (task.folder / "ORIGIN").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "why"),
    [("raise SystemExit('no key')", "exit code 1: no key"), ("open('/etc/shadow')", "No such file"), ("import x", "named 'x'")],
)
def test_a_setup_script_that_fails_is_named(tmp_path: Path, script: str, why: str) -> None:
    source = sets.put(sets.openclaw(tmp_path / "set"), {"tasks/sum/environment/setup_workspace.py": script})
    done = imported(source, tmp_path / "out")
    assert why in done.refused[0][1]
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
def test_a_setup_script_reaches_no_port_of_this_machine(tmp_path: Path) -> None:
    if not resolve_isolation(OrchestratorConfig()).network:
        pytest.skip("sandboxes have no network of their own here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket\nsocket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)\n"
        source = sets.put(sets.openclaw(tmp_path / "set"), {"tasks/sum/environment/setup_workspace.py": script})
        assert "Connection refused" in imported(source, tmp_path / "out").refused[0][1]


def test_every_task_keeps_origin_and_licence(tmp_path: Path) -> None:
    source = sets.put(sets.harbor(tmp_path / "set"), {"LICENSE": "MIT License\n\nPermission is hereby granted, ..."})
    folder = imported(source, tmp_path / "out").tasks[0]
    assert (folder / "ORIGIN").read_text() == "source: set\ntask: one/same\nformat: harbor\nlicence: MIT\n"
    assert (folder / "LICENSE").read_text().startswith("MIT License")


def test_an_unknown_licence_is_said_to_be_unknown(tmp_path: Path) -> None:
    assert origin_of(sets.harbor(tmp_path / "set")).licence == UNKNOWN
    assert origin_of(tmp_path / "set", "a friend", "CC0-1.0").note("harbor", "x").splitlines()[0] == "source: a friend"


def test_the_address_and_commit_of_a_clone_are_kept_without_its_password(tmp_path: Path) -> None:
    source = sets.harbor(tmp_path / "set")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for argv in (["init", "-q"], ["remote", "add", "origin", "https://me:word@git.example/set"], ["add", "."],
                 [*who, "commit", "-qm", "x"]):  # fmt: skip
        subprocess.run(["git", "-C", str(source), *argv], check=True)
    assert origin_of(source / "one").source.startswith("https://git.example/set at ")


def test_every_format_recognises_its_own_and_no_other(tmp_path: Path) -> None:
    made = {
        "qwenclawbench": sets.markdown(tmp_path / "a"), "webvoyager": sets.lines(tmp_path / "b", sets.WEBVOYAGER),
        "mind2web": sets.put(tmp_path / "c", {"rows.json": json.dumps(sets.MIND2WEB)}), "mcp-atlas": sets.atlas(tmp_path / "d"),
        "osworld": sets.put(tmp_path / "e", {"x/1.json": json.dumps(sets.OSWORLD)}), "claw-eval": sets.claw(tmp_path / "f"),
        "harbor": sets.harbor(tmp_path / "g"),
    }  # fmt: skip
    assert set(made) == set(FORMATS)
    for name, source in made.items():
        assert [known for known, form in FORMATS.items() if form.fits(source)] == [name]
        assert format_of(source)[0] == name


def test_a_source_that_looks_like_nothing_is_refused(tmp_path: Path) -> None:
    sets.put(tmp_path, {"a.txt": "x", "b.json": "{", "c.jsonl": "", "d.csv": "", "e.md": "# x"})
    with pytest.raises(TaskError, match="name it with --from: harbor,"):
        format_of(tmp_path)
    with pytest.raises(TaskError, match="no format 'tar'"):
        format_of(tmp_path, "tar")
    with pytest.raises(TaskError, match="no such file or folder"):
        format_of(tmp_path / "gone")


def nothing(script: Path, workdir: str, into: Path) -> None:
    raise AssertionError


def test_a_task_is_not_written_over_another(tmp_path: Path) -> None:
    draft = Draft(name="a", toml={}, texts={"instruction.md": "x", "tests/test.sh": unjudged(["a judge"])})
    write_task(draft, tmp_path, "source: x\n", None, nothing)
    with pytest.raises(TaskError, match="there is a task a in"):
        write_task(draft, tmp_path, "source: x\n", None, nothing)


def test_a_link_that_leads_out_of_a_task_is_refused(tmp_path: Path) -> None:
    source = sets.harbor(tmp_path / "set")
    (source / "one/same/environment").mkdir()
    (source / "one/same/environment/passwd").symlink_to("/etc/passwd")
    done = imported(source, tmp_path / "out")
    assert "is a link that leads out of the task" in done.refused[0][1]
    assert [folder.name for folder in done.tasks] == ["two-same"]


@given(st.text())
def test_any_text_gives_a_folder_name_without_surprises_or_none(text: str) -> None:
    try:
        name = folder_name(text)
    except TaskError:
        return
    assert "/" not in name
    assert name not in ("", ".", "..")
    assert folder_name(name) == name
    assert inner_path(name, "x") == name


@pytest.mark.parametrize("path", ["", "/etc", "a/../../b", ".", 3, None])
def test_a_path_that_is_not_inside_is_refused(path: object) -> None:
    with pytest.raises(TaskError, match="not a path inside a folder"):
        inner_path(path, "files")


def test_what_a_task_needs_is_said_in_its_metadata(tmp_path: Path) -> None:
    source = sets.harbor(tmp_path / "set", **{"task.toml": "[metadata]\nneeds = 'a camera'\n"})
    assert needs_of(source / "one/same") == ["a camera"]
