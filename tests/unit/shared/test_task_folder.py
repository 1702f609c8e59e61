from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shared.errors import TaskError
from shared.task import expand, list_tasks, load_task

FULL = """
schema_version = "1.4"
artifacts = ["/app/out.txt"]
[task]
name = "demo/find"
[metadata]
max_turns = 4
[agent]
timeout_sec = 30
[verifier]
timeout_sec = 5.5
env = { MODE = "strict" }
[environment]
cpus = 2
workdir = "/work"
env = { NAME = "${USER_NAME:-nobody}" }
[a_section_of_tomorrow]
x = 1
"""

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def write(name: str = "find", toml: str = "", without: tuple[str, ...] = ()) -> Path:
        parts = {"task.toml": toml, "instruction.md": "Find it.\n", "tests/test.sh": "#!/bin/sh\n"}
        folder = tmp_path / "tasks" / name
        folder.mkdir(parents=True)
        for path, text in parts.items():
            if path not in without:
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_text(text)
        return folder

    return write


def test_a_whole_task_is_read_and_unknown_sections_are_ignored(make: Make) -> None:
    folder = make(toml=FULL)
    task = load_task(folder)
    assert (task.name, task.instruction, task.metadata) == ("demo/find", "Find it.\n", {"max_turns": 4})
    assert (task.agent.timeout_sec, task.verifier.timeout_sec, task.verifier.env) == (30, 5.5, {"MODE": "strict"})
    assert (task.workdir, task.environment.env) == ("/work", {"NAME": "${USER_NAME:-nobody}"})
    assert (task.environment_dir, task.tests_dir) == (folder / "environment", folder / "tests")


def test_an_empty_task_toml_leaves_everything_to_the_configuration(make: Make) -> None:
    task = load_task(make())
    assert (task.name, task.agent.timeout_sec, task.verifier.timeout_sec, task.workdir) == (
        "find",
        None,
        None,
        "/app",
    )


def test_a_relative_folder_becomes_absolute(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make()
    monkeypatch.chdir(folder.parent)
    assert load_task(Path("find")).folder == folder


@pytest.mark.parametrize("part", ["task.toml", "instruction.md"])
def test_a_missing_part_is_named(make: Make, part: str) -> None:
    with pytest.raises(TaskError, match=f"no {part}"):
        load_task(make(without=(part,)))


def test_a_task_without_a_verifier_is_refused(make: Make) -> None:
    with pytest.raises(TaskError, match="task without a verifier"):
        load_task(make(without=("tests/test.sh",)))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="nowhere: no such task folder"):
        load_task(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ("[agent", "not valid TOML"),
        ("[agent]\ntimeout_sec = -1", "agent.timeout_sec: Expected `float` > 0"),
        ("[agent]\ntimeout_sec = 'long'", "agent.timeout_sec: Expected `float"),
        ("[verifier]\nenv = { A = 1 }", r"verifier.env\[...\]: Expected `str`"),
        ("[environment]\nworkdir = 'app'", "must be an absolute path"),
        ("[task]\nname = 3", "task.name: expected a text"),
        ("agent = 3", "agent: Expected `object`"),
    ],
)
def test_a_bad_value_is_named_with_its_place(make: Make, toml: str, text: str) -> None:
    with pytest.raises(TaskError, match=text):
        load_task(make(toml=toml))


def test_an_instruction_that_is_no_text_is_refused(make: Make) -> None:
    folder = make()
    (folder / "instruction.md").write_bytes(b"\xff\xfe")
    with pytest.raises(TaskError, match=r"instruction.md: 'utf-8'"):
        load_task(folder)


def test_tasks_are_listed_by_name_and_other_folders_are_left_out(make: Make) -> None:
    second, first = make("b"), make("a")
    (first.parent / "notes").mkdir()
    assert list_tasks(first.parent) == [first, second]


def test_a_folder_without_tasks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no task in it"):
        list_tasks(tmp_path)
    with pytest.raises(TaskError, match="no such folder"):
        list_tasks(tmp_path / "nowhere")


def test_variables_come_from_the_host_or_their_default() -> None:
    env = {"A": "${X}", "B": "${Y:-b}/${X:-c}", "C": "$X", "D": "${Y:-}"}
    assert expand(env, {"X": "x"}) == {"A": "x", "B": "b/x", "C": "$X", "D": ""}


def test_a_variable_that_is_not_set_is_an_error() -> None:
    with pytest.raises(TaskError, match="needs the environment variable TOKEN"):
        expand({"A": "${TOKEN}"}, {})


def test_our_own_keys_are_not_given_to_tasks() -> None:
    host = {"OPENFORGE_CONTROL_KEY": "secret"}
    assert expand({"A": "${OPENFORGE_CONTROL_KEY:-none}"}, host) == {"A": "none"}
    with pytest.raises(TaskError):
        expand({"A": "${OPENFORGE_CONTROL_KEY}"}, host)
