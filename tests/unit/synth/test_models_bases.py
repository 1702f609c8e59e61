"""Bases: all of a domain's task but what a model writes, and words for the prompt."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import msgspec
import pytest

from services.synth.domains import FAMILIES
from services.synth.domains.claw.draft import OFFICE
from services.synth.model import Domain, Lineage, Proposal
from services.synth.models.bases import base_of
from services.synth.models.kinds import Built, File
from services.synth.models.maker import lay
from services.synth.models.workshop.order import read_built
from shared.task import load_task

PROPOSAL = Proposal(
    task_id="x-1", domain="claw", family="x", title="X", brief="x", lineage=Lineage(generator="models")
)  # fmt: skip


@pytest.mark.parametrize(("domain", "name"), [("claw", "mail-amount"), ("browser", "wiki-find"), ("computer", "note-to-form")])
def test_what_a_family_writes_beside_the_base_is_what_a_model_would_and_makes_the_same_task(
    tmp_path: Path, domain: Domain, name: str
) -> None:
    base = base_of(domain)
    family = next(one for one in FAMILIES if one.name == name)
    family.make(3, tmp_path / "theirs")
    built = read_built(tmp_path / "theirs", base, 5)
    assert not base.taken & {file.path for file in built.files}
    lay(msgspec.structs.replace(PROPOSAL, domain=domain), unfilled(built), base, tmp_path / "ours")
    theirs, ours = (
        {path.relative_to(top).as_posix(): path for path in top.rglob("*") if path.is_file()}
        for top in (tmp_path / "theirs", tmp_path / "ours")
    )
    assert set(theirs) == set(ours)
    assert [path for path in theirs if said_in(theirs[path]) != said_in(ours[path])] == ["task.toml"]
    assert [path for path in theirs if theirs[path].stat().st_mode != ours[path].stat().st_mode] == []
    task = load_task(tmp_path / "ours")
    assert (task.name, task.metadata["family"]) == (f"{domain}/x-1", "x")
    assert set(task.metadata) - {"seed", "level"} == set(load_task(tmp_path / "theirs").metadata) - {"seed", "level"}


def unfilled(built: Built) -> Built:
    """As a model writes it that leaves out what is filled in."""
    files = []
    for file in built.files:
        content = file.content
        if file.path == "tests/expected.json":
            content = json.dumps(json.loads(content) | {"start": {}})
        files.append(File(file.path, content))
    return Built(built.instruction, built.agent_minutes, files)


def said_in(path: Path) -> object:
    """Content of a file; of JSON what it means."""
    return json.loads(path.read_text()) if path.suffix == ".json" else path.read_bytes()


def test_the_verifiers_copy_of_the_data_says_the_same_in_other_bytes_however_it_is_written(tmp_path: Path) -> None:
    base = base_of("claw")
    for n, seed in enumerate(('{"mail": {}}', '{\n "mail": {}\n}\n', '{"mail":{}}')):
        files = [File("environment/office.d/seed.json", seed), File("tests/check.py", ""), File("solution/solve.sh", "")]
        lay(PROPOSAL, Built("x", 1, files), base, tmp_path / str(n))
        one, other = (tmp_path / str(n) / path for path in ("environment/office.d/seed.json", "tests/before.json"))
        assert json.loads(one.read_text()) == json.loads(other.read_text())
        assert one.read_bytes() != other.read_bytes()


def test_the_prompt_tells_every_expectation_that_there_is_and_none_else() -> None:
    guide = base_of("claw").guide
    module = ast.parse((OFFICE / "expect.py").read_text())
    expect = next(node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Expect")
    methods = {node.name for node in expect.body if isinstance(node, ast.FunctionDef)}
    told = set(re.findall(r"^- expect\.(\w+)\(", guide, re.M))
    assert told == {name for name in methods if not name.startswith("_") and name != "load"}
    assert "mail_sent" in told
    assert "office mail search" in guide
