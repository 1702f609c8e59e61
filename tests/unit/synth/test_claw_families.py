"""The families of claw tasks: the same seed makes the same task, others make others."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from services.synth.domains import FAMILIES as ALL
from services.synth.domains.claw.draft import LEVELS, Level, OfficeFamily
from services.synth.domains.claw.families import FAMILIES
from services.synth.domains.claw.families.program import fix, output
from shared.task.lint import lint

DIGEST = """
import sys, pathlib
from services.synth.domains.claw.families import FAMILIES
from services.synth.domains.claw.families.program import fix, output
FAMILIES[int(sys.argv[1])].make(7, pathlib.Path(sys.argv[2]))
"""


def content(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): f"{p.stat().st_mode & 0o777:o} {p.read_text()}" for p in files}


def digest(folder: Path) -> str:
    return hashlib.sha256(repr(content(folder)).encode()).hexdigest()


def test_there_are_fourteen_and_names_are_unique() -> None:
    assert len(FAMILIES) == 14
    assert len({family.name for family in ALL}) == len(ALL)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_a_seed_makes_the_same_task_byte_for_byte_and_others_make_others(family: OfficeFamily, tmp_path: Path) -> None:
    for seed in (0, 1):
        family.make(seed, tmp_path / str(seed))
        family.make(seed, tmp_path / "again" / str(seed))
        assert content(tmp_path / "again" / str(seed)) == content(tmp_path / str(seed))
    drafts = [family.draw(random.Random(seed), "medium") for seed in range(12)]
    assert len({json.dumps([draft.office, draft.files]) for draft in drafts}) == 12
    assert len({draft.instruction for draft in drafts}) >= 6


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_nothing_speaks_against_a_task_of_any_level(family: OfficeFamily, level: str, tmp_path: Path) -> None:
    OfficeFamily(family.name, family.draw, level).make(3, tmp_path / "task")  # type: ignore[arg-type]
    task, found = lint(tmp_path / "task", "local", "none")
    assert task is not None
    assert (found, task.metadata["level"], task.metadata["family"]) == ([], level, family.name)
    assert task.serve


def test_the_hash_seed_does_not_matter(tmp_path: Path) -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        for n in (1, 2, 11):
            folder = tmp_path / hash_seed / str(n)
            subprocess.run(
                [sys.executable, "-c", DIGEST, str(n), str(folder)],
                check=True,
                env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
            )
            digests.add((n, digest(folder)))
    assert len(digests) == 3


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_is_wrong_until_its_solution_has_put_it_right(level: Level) -> None:
    for seed in range(12, 24):
        draft = fix(random.Random(seed), level)
        (name,) = set(draft.files) - {"check.py"}
        mended = ast.literal_eval(draft.solve.split("for number, right in ")[1].split(":\n")[0])
        cases = ast.literal_eval(draft.checks[0].split("], ", 1)[1].removesuffix(")"))
        lines = draft.files[name].splitlines(keepends=True)
        assert any(output("".join(lines), given).split() != wanted.split() for given, wanted in cases)
        for number, right in mended:
            lines[number] = right
        assert all(output("".join(lines), given).split() == wanted.split() for given, wanted in cases)
