"""Adapters as data: what a file may say, what it becomes, and what is said about one that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from services.orchestrator.harnesses import Request, harness
from services.orchestrator.harnesses.adapter import Npm, Pip, load
from services.orchestrator.harnesses.installed import NODE, apt_command, place
from services.orchestrator.harnesses.library import adapter_files
from shared.errors import HarnessError

REQUEST = Request("http://127.0.0.1:9/run/s", "s", "policy", 4096, "Do it.", "/home/agent", "/logs", "/app", {"start": "true"})
OWN = """
about = "a program of mine"
api = "openai.chat"
argv = ["/bin/true", "--task", "{instruction}"]
[env]
URL = "{base_url_v1}"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where things that look like installed programs can be put."""
    monkeypatch.setenv("OPENFORGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "harness"


def pretend(folder: Path, home: str = "") -> Path:
    """A folder that says that something was installed in it; with `home`, of a Python environment."""
    folder.mkdir(parents=True)
    (folder / "installed").touch()
    if home:
        (folder / "pyvenv.cfg").write_text(f"home = {home}\nversion = 3.11\n")
    return folder


def write(folder: Path, text: str, name: str = "mine") -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


INSTALLABLE = [name for name, file in adapter_files().items() if load(file).install is not None]


@pytest.mark.parametrize("name", INSTALLABLE)
def test_built_in_adapters_start_what_they_install(name: str, cache: Path, tmp_path: Path) -> None:
    adapter = load(adapter_files()[name])
    if command := apt_command(adapter.debian):
        pytest.skip(command)
    install = adapter.install
    if isinstance(install, Npm | Pip):
        pretend(place(name, install), "/opt/python/bin")
    launch = harness(name).launch(REQUEST)
    everything = " ".join((*launch.argv, *launch.env.values(), *launch.files.values()))
    assert "/run/s" in everything
    assert "policy" in everything
    assert "Do it." in everything
    assert Path(launch.argv[0]).is_absolute()


def test_one_without_installation_has_a_reason_to_be_untested() -> None:
    assert [name for name in adapter_files() if load(adapter_files()[name]).untested] == ["zeroclaw"]
    assert set(adapter_files()) - set(INSTALLABLE) == {"zeroclaw", "null", "oracle", "cheat"}


def test_a_python_program_is_started_in_its_own_environment(cache: Path) -> None:
    mini = pretend(cache / "mini-2.4.6", "/opt/python/bin")
    launch = harness("mini").launch(REQUEST)
    assert launch.argv[0] == f"{mini}/bin/mini"
    assert launch.argv[3:7] == ("-m", "openai/policy", "-t", "Do it.")
    assert launch.env["OPENAI_API_BASE"] == "http://127.0.0.1:9/run/s/v1"
    assert launch.read_only == (mini, Path("/opt/python"))


def test_a_node_program_finds_its_node(cache: Path) -> None:
    codex = pretend(cache / "codex-0.171.0")
    launch = harness("codex").launch(REQUEST)
    assert launch.argv[0] == f"{codex}/node_modules/.bin/codex"
    assert launch.env["PATH"].startswith(f"{cache}/node-{NODE}/node/bin:/")
    assert launch.read_only == (codex, cache / f"node-{NODE}")
    assert 'base_url = "http://127.0.0.1:9/run/s/v1"' in launch.files[".codex/config.toml"]
    assert "model_context_window = 4096" in launch.files[".codex/config.toml"]


def test_what_is_not_installed_names_the_command(cache: Path) -> None:
    with pytest.raises(HarnessError, match="run openforge harness install mini"):
        harness("mini").launch(REQUEST)


def test_programs_of_the_machine_name_their_packages(tmp_path: Path) -> None:
    programs = '[debian]\nno-such-one = "one"\n"/no/such/two" = "two"\nno-such-three = "one"\n"/bin/sh" = "dash"\n'
    write(tmp_path, OWN + programs)
    with pytest.raises(HarnessError, match=r"mine needs .* run apt-get install -y --no-install-recommends one two$"):
        harness("mine", str(tmp_path)).launch(REQUEST)


def test_settings_are_numbers_or_texts_of_the_task(tmp_path: Path) -> None:
    table = '[settings]\nnumber = { default = 3, minimum = 2 }\ntext = { default = "", minimum = 1 }\n'
    write(tmp_path, OWN.replace("[env]", '[env]\nN = "{number} {text}"') + table)

    def n(**metadata: object) -> str:
        return harness("mine", str(tmp_path)).launch(replace(REQUEST, metadata=metadata)).env["N"]

    assert (n(text="a"), n(text="b", number=2)) == ("3 a", "2 b")
    for bad in (1, True, "4", None, [2]):
        with pytest.raises(HarnessError, match=r"metadata\.number is .*; expected a whole number from 2"):
            n(text="a", number=bad)
    for worse in ("", 1, None, ["a"]):
        with pytest.raises(HarnessError, match=r"metadata\.text is .*; expected a text of at least 1 characters"):
            n(text=worse)
    with pytest.raises(HarnessError, match=r"metadata\.text is ''"):
        n()


def test_an_instruction_too_long_for_an_argument_is_refused(tmp_path: Path) -> None:
    write(tmp_path, OWN)
    with pytest.raises(HarnessError, match="100000 bytes"):
        harness("mine", str(tmp_path)).launch(replace(REQUEST, instruction="é" * 60_000))


def test_an_unknown_harness_names_those_that_are_known() -> None:
    with pytest.raises(
        HarnessError, match=r"no harness 'clod'; known: browser-use, cheat, claude, .*, zeroclaw; orchestrator\.harness_dir"
    ):
        harness("clod")


def test_a_user_adds_and_replaces_harnesses(tmp_path: Path) -> None:
    write(tmp_path, OWN)
    write(tmp_path, OWN, "react")
    for name in ("mine", "react"):
        launch = harness(name, str(tmp_path)).launch(REQUEST)
        assert (launch.argv, launch.env) == (("/bin/true", "--task", "Do it."), {"URL": "http://127.0.0.1:9/run/s/v1"})


def test_a_user_s_program_that_is_missing_is_named(tmp_path: Path) -> None:
    write(tmp_path, OWN.replace("/bin/true", "no-such-agent"))
    with pytest.raises(HarnessError, match="no-such-agent is not on this machine"):
        harness("mine", str(tmp_path)).launch(REQUEST)


def test_braces_that_are_no_placeholders_stay(tmp_path: Path) -> None:
    write(tmp_path, OWN + '[files]\n"c.json" = \'{"m": {"n": "{model}"}, "x": {}}\'\n')
    assert harness("mine", str(tmp_path)).launch(REQUEST).files == {"c.json": '{"m": {"n": "policy"}, "x": {}}'}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ('evn = "x"', "unknown field `evn`"),
        ('api = "soap"', "api: Invalid enum value 'soap'"),
        ("argv = []", "argv: Expected `array` of length >= 1"),
        ('argv = ["/bin/true", "{instrction}"]', r"unknown placeholder \{instrction\}; known: base_url"),
        ('[install]\nkind = "cargo"\npackage = "x"\nversion = "1"', "install.kind: Invalid value 'cargo'"),
        ('[install]\nkind = "npm"\npackage = "x"', "missing required field `version`"),
        ('[install]\nkind = "npm"\npackage = "x"\nversion = "latest"', "install.version"),
        ('[files]\n"../x" = ""', "must be a path inside the home folder"),
        ('[[roles]]\nrole = "aux"', "a role without a condition"),
        ('[[roles]]\nrole = "aux"\nsystem = "("', "regular expression"),
        ('[[roles]]\nrole = "sub"\nheader = "X-Agent"', "lower case"),
        ('[[roles]]\nrole = "boss"\ntools = "none"', "roles"),
        ("[settings]\nmodel = { default = 1 }", "settings: model means something else"),
        ("[[", "mine.toml: "),
    ],
)
def test_a_wrong_adapter_is_told_where_and_why(tmp_path: Path, change: str, complaint: str) -> None:
    field = change.partition(" = ")[0]
    kept = [line for line in OWN.strip().splitlines() if not line.startswith(f"{field} =")]
    lines = [*kept, change] if change.startswith("[") else [change, *kept]
    write(tmp_path, "\n".join(lines))
    with pytest.raises(HarnessError, match=complaint) as e:
        harness("mine", str(tmp_path)).launch(REQUEST)
    assert str(tmp_path / "mine.toml") in str(e.value)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"orchestrator\.harness_dir .*: no such folder"):
        harness("react", str(tmp_path / "none"))


def test_a_name_that_is_none_is_told(tmp_path: Path) -> None:
    write(tmp_path, OWN, "My Agent")
    with pytest.raises(HarnessError, match="the name of the harness"):
        harness("react", str(tmp_path))


def test_a_folder_of_python_files_is_brought_along(tmp_path: Path) -> None:
    (tmp_path / "code" / "part").mkdir(parents=True)
    (tmp_path / "code" / "__main__.py").write_text("main")
    (tmp_path / "code" / "part" / "a.py").write_text("a")
    (tmp_path / "code" / "notes.txt").write_text("not Python")
    write(tmp_path, OWN + '[programs]\nagent = "code"\n')
    assert harness("mine", str(tmp_path)).launch(REQUEST).files == {"agent/__main__.py": "main", "agent/part/a.py": "a"}


def test_a_program_of_an_adapter_that_is_missing_is_told(tmp_path: Path) -> None:
    write(tmp_path, OWN + '[programs]\n"a.py" = "a.py"\n')
    with pytest.raises(HarnessError, match=r"a\.py"):
        harness("mine", str(tmp_path)).launch(REQUEST)
