"""The bench of synth in short: planted defects, a sound task of each domain, real sandboxes, one kill -9."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.stacks import REPO

pytestmark = [pytest.mark.real, pytest.mark.slow]
DEFECTS = ("null-passes", "oracle-fails", "answer-in-the-image", "exact-copy")


@pytest.mark.timeout(420)
async def test_planted_defects_are_caught_and_sound_tasks_accepted_though_synth_is_killed(tmp_path: Path) -> None:
    if not shutil.which("bwrap"):
        pytest.fail("bubblewrap is missing: apt-get install -y bubblewrap")
    sets = ("--set", "synth.gates.repeats=1", "--set", 'synth.domains=["claw", "browser"]')
    argv = ("--count", "8", "--each", "1", "--kills", "1", "--folder", str(tmp_path), *sets, "--defects", *DEFECTS)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.synth", *argv, cwd=REPO, stdout=asyncio.subprocess.PIPE
    )
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
    found = json.loads(out.splitlines()[-1])
    assert (process.returncode, found["good"], found["kills"]) == (0, True, ["synth"]), found
    assert (found["sound"]["accepted"], found["defects"]["caught"]) == (4, 4)
