"""The demo where it takes longer: asynchronously to the end, in real agent programs, and on tasks with a service."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.lookup.demo import HERE
from services.orchestrator.harnesses.adapter import Npm, Pip, load
from services.orchestrator.harnesses.installed import is_installed, place
from tests.e2e.test_demo import accounts_agree, demo

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(7200)]


def needs(name: str) -> None:
    """Skips unless the program that an adapter of the demo wants is installed."""
    install = load(HERE / "harnesses" / f"{name}.toml").install
    assert isinstance(install, Npm | Pip)
    if not is_installed(place(name, install)):
        pytest.skip(f"openforge harness install {name}")


@pytest.mark.harness
@pytest.mark.parametrize("name", ["mini", "pi"])
async def test_the_demo_learns_in_a_real_program(name: str, tmp_path: Path) -> None:
    needs(name)
    ended = await demo(tmp_path, "--seed", "0", "--harness", name)
    s = ended.summary
    assert ended.code == 0, ended.out
    assert s["heldout_after"] >= s["heldout_before"] + 0.2, s
    assert accounts_agree(s), s


@pytest.mark.parametrize("seed", [0, 1])
async def test_the_demo_learns_as_much_when_rollouts_run_ahead(seed: int, tmp_path: Path) -> None:
    pace = ("--set", "trainer.pace.mode=async", "--set", "trainer.pace.max_staleness=1")
    ended = await demo(tmp_path, "--seed", str(seed), *pace)
    s = ended.summary
    assert ended.code == 0, ended.out
    assert s["heldout_after"] >= s["heldout_before"] + 0.35, s
    assert accounts_agree(s), s


async def test_the_agent_of_an_office_learns_to_answer_mails_through_the_service(tmp_path: Path) -> None:
    ended = await demo(tmp_path, "--seed", "0", module="examples.claw.learn.demo")
    s = ended.summary
    assert ended.code == 0, ended.out
    assert s["heldout_after"] >= s["heldout_before"] + 0.2, s
    assert accounts_agree(s), s
