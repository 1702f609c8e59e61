"""What a Harbor task.toml can say, and what of it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import TaskError
from shared.task import Task, load_task, refuse, unsupported
from shared.task.dockerfile import instructions, workdir
from shared.task.legacy import mib, renew

WHOLE = """
schema_version = "1.4"
source = "a registry"
artifacts = ["/app/out.txt", { source = "/app/more", exclude = ["*.o"] }]
[task]
name = "demo/whole"
[agent]
timeout_sec = 30.0
user = 1000
[verifier]
timeout_sec = 5.5
user = "tester"
[environment]
build_timeout_sec = 60
cpus = 0.5
memory_mb = 512
storage_mb = 1024
network_mode = "no-network"
workdir = "/work"
[environment.healthcheck]
command = "test -e /work"
retries = 2
[solution]
env = { A = "1" }
"""
OLD = """
version = "1.0"
[environment]
memory = "1.5G"
storage = "512M"
allow_internet = false
"""


def write(folder: Path, toml: str = "", files: dict[str, str] | None = None) -> Path:
    parts = {"task.toml": toml, "instruction.md": "Do it.\n", "tests/test.sh": "#!/bin/sh\n", **(files or {})}
    for path, text in parts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def loaded(folder: Path, toml: str = "", files: dict[str, str] | None = None) -> Task:
    return load_task(write(folder, toml, files))


def test_every_section_is_read(tmp_path: Path) -> None:
    task = loaded(tmp_path, WHOLE)
    e = task.environment
    assert (e.cpus, e.memory_mb, e.storage_mb, e.build_timeout_sec, task.workdir) == (0.5, 512, 1024, 60, "/work")
    assert (task.user, task.verifier.user, task.network, task.source) == ("1000", "tester", "none", "a registry")
    assert [a.source for a in task.artifacts] == ["/app/out.txt", "/app/more"]
    assert task.steps[0].healthcheck is not None
    assert task.steps[0].healthcheck.retries == 2
    assert task.solution.env == {"A": "1"}
    assert unsupported(task, "local") == []


def test_an_older_file_says_the_same_in_other_words(tmp_path: Path) -> None:
    task = loaded(tmp_path, OLD)
    e = task.environment
    assert (e.memory_mb, e.storage_mb, e.network_mode) == (1536, 512, "no-network")


def test_an_old_size_must_not_contradict_the_new_one(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"environment\.memory '1G' and environment\.memory_mb 512 are not the same"):
        loaded(tmp_path, '[environment]\nmemory = "1G"\nmemory_mb = 512')
    with pytest.raises(TaskError, match="'much' is not a size"):
        loaded(tmp_path, '[environment]\nstorage = "much"')


@given(st.integers(1, 10**6))
def test_sizes_are_read_in_any_unit(size: int) -> None:
    assert mib(f"{size}M") == size
    assert mib(f"{size}G") == 1024 * size
    assert mib(f" {1024 * size}k ") == size


def test_renewing_twice_changes_nothing_more() -> None:
    raw = {"version": "1.0", "environment": {"memory": "1G", "allow_internet": False, "os": "Linux"}}
    assert renew(renew(raw)) == renew(raw)


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("FROM a\nWORKDIR /x\nWORKDIR y\n", "/x/y"),
        ("FROM a\nWORKDIR /x\nFROM b\n", None),
        ('# WORKDIR /no\nfrom a\nworkdir "/quoted"\n', "/quoted"),
        ("FROM a\nWORKDIR $HOME/x\n", None),
        ("FROM a\nRUN echo \\\n  WORKDIR /no\n", None),
        ("", None),
    ],
)
def test_the_last_stage_of_a_dockerfile_says_the_working_folder(text: str, folder: str | None) -> None:
    assert workdir(text) == folder


def test_continued_lines_are_one_instruction() -> None:
    assert instructions("FROM a\nRUN x && \\\n  # why\n  y\n") == [("FROM", "a"), ("RUN", "x &&    y")]


def test_the_dockerfile_gives_the_working_folder_unless_task_toml_does(tmp_path: Path) -> None:
    docker = {"environment/Dockerfile": "FROM a\nWORKDIR /workspace\n"}
    assert loaded(tmp_path / "a", "", docker).workdir == "/workspace"
    assert loaded(tmp_path / "b", '[environment]\nworkdir = "/own"', docker).workdir == "/own"
    assert loaded(tmp_path / "c").workdir == "/app"


def test_only_an_explicit_wish_opens_the_network(tmp_path: Path) -> None:
    assert loaded(tmp_path / "a").network == "none"
    assert loaded(tmp_path / "b", "[environment]\nallow_internet = true").network == "none"
    wish = loaded(tmp_path / "c", '[environment]\nnetwork_mode = "public"')
    assert wish.network == "public"
    assert unsupported(wish, "local", "task") == []
    with pytest.raises(TaskError, match=r"orchestrator\.network=task"):
        refuse(wish, "local", "none")
    closed = loaded(tmp_path / "d", '[agent]\nnetwork_mode = "no-network"\n[environment]\nnetwork_mode = "public"')
    assert closed.network == "none"


STEPS = """
multi_step_reward_strategy = "final"
[agent]
timeout_sec = 9
[[steps]]
name = "first"
min_reward = 0.5
[steps.agent]
timeout_sec = 3
[[steps]]
name = "second"
"""
STEP_FILES = {
    "steps/first/instruction.md": "One.\n", "steps/first/tests/test.sh": "#!/bin/sh\n",
    "steps/second/instruction.md": "Two.\n",
}  # fmt: skip


def test_steps_have_what_they_do_not_say_from_the_task(tmp_path: Path) -> None:
    task = loaded(tmp_path, STEPS, STEP_FILES)
    first, second = task.steps
    assert (task.instruction, second.instruction, task.strategy) == ("One.\n", "Two.\n", "final")
    assert (first.agent.timeout_sec, second.agent.timeout_sec, first.min_reward) == (3, 9, 0.5)
    assert first.tests == (tmp_path / "tests", tmp_path / "steps/first/tests")
    assert second.tests == (tmp_path / "tests",)


def test_a_step_without_a_verifier_is_refused(tmp_path: Path) -> None:
    write(tmp_path, STEPS, STEP_FILES)
    (tmp_path / "tests/test.sh").unlink()
    with pytest.raises(TaskError, match=r"steps/second: no tests/test\.sh"):
        load_task(tmp_path)


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ("[environment]\nallowed_hosts = ['a.org']", 'goes with network_mode = "allowlist"'),
        ("[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\ncpus = 1", "leave one of them out"),
        ("[[environment.mcp_servers]]\nname = 'm'\ntransport = 'stdio'", "needs a command"),
        ("[[environment.mcp_servers]]\nname = 'm'", "needs a url"),
        ("artifacts = ['/a/../b']", r"must not have '\.\.'"),
        ("[environment]\ncpus = 0", r"environment\.cpus: Expected `float` > 0"),
        ("[environment]\nos = 'plan9'", r"environment\.os: Invalid enum value 'plan9'"),
        ("[[steps]]\nname = '../x'", "cannot be the name of a folder"),
        ("[[steps]]\nname = 'a'\n[[steps]]\nname = 'A'", "there are two of the name 'a'"),
    ],
)
def test_what_contradicts_itself_is_refused_when_it_is_read(tmp_path: Path, toml: str, text: str) -> None:
    with pytest.raises(TaskError, match=text):
        loaded(tmp_path, toml)


@pytest.mark.parametrize(
    ("toml", "files", "name"),
    [
        ("[environment]\nos = 'Windows'", {}, "environment.os"),
        ("[environment]\ngpus = 1", {}, "environment.gpus"),
        ("[environment]\ntpu = { type = 'v6e', topology = '2x2' }", {}, "tpu"),
        ("", {"environment/docker-compose.yaml": "services: {}\n"}, "docker-compose.yaml"),
        ("[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['a.org']", {}, "allowlist"),
        ("[[environment.mcp_servers]]\nname = 'm'\nurl = 'http://x'", {}, "mcp_servers"),
        ("[environment]\nskills_dir = '/skills'", {}, "skills_dir"),
        ("[[verifier.collect]]\ncommand = 'x'", {}, "verifier.collect"),
        ("", {"trajectory.json": "{}"}, "trajectory.json"),
    ],
)
def test_what_no_backend_can_carry_out_is_refused_by_name(tmp_path: Path, toml: str, files: dict[str, str], name: str) -> None:
    task = loaded(tmp_path, toml, files)
    for backend in ("local", "docker", "kubernetes"):
        (reason,) = unsupported(task, backend)
        assert name in reason


def test_several_steps_run_everywhere_but_with_files_of_their_own_nowhere(tmp_path: Path) -> None:
    task = loaded(tmp_path, STEPS, STEP_FILES)
    for backend in ("local", "docker", "kubernetes"):
        assert unsupported(task, backend) == []
    (tmp_path / "steps/second/workdir").mkdir()
    (reason,) = unsupported(load_task(tmp_path), "local")
    assert "steps/second/workdir" in reason


@pytest.mark.parametrize("toml", ["[environment]\ndocker_image = 'a:1'", "[agent]\nuser = 'root'", "[verifier]\nuser = 0"])
def test_what_needs_a_container_is_refused_on_the_plain_machine_only(tmp_path: Path, toml: str) -> None:
    task = loaded(tmp_path, toml)
    assert len(unsupported(task, "local")) == 1
    assert unsupported(task, "docker") == []
    assert len(unsupported(task, "kubernetes")) == ("verifier" in toml)  # a pod has one user, unless that is root


def test_a_task_whose_image_has_to_be_built_is_refused_where_nobody_builds(tmp_path: Path) -> None:
    task = loaded(tmp_path, "", {"environment/Dockerfile": "FROM debian\n"})
    assert unsupported(task, "docker") == []
    (reason,) = unsupported(task, "kubernetes")
    assert "environment.docker_image" in reason


@pytest.mark.parametrize(("agent", "verifier", "refused"), [("'1000'", "1000", 0), ("'root'", "1000", 0), ("1000", "1001", 1)])
def test_a_pod_that_is_not_roots_has_one_user(tmp_path: Path, agent: str, verifier: str, refused: int) -> None:
    task = loaded(tmp_path, f"[agent]\nuser = {agent}\n[verifier]\nuser = {verifier}")
    assert len(unsupported(task, "kubernetes")) == refused
