"""The demo itself, whole: real vLLM, real veRL, and learning that can be measured."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stacks import REPO, find_service

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Ended:
    """A demo that ended: exit status, everything it printed, its summary."""

    code: int
    out: str
    summary: dict[str, Any]


async def demo(root: Path, *args: str, kill_at_step: dict[int, str] | None = None) -> Ended:
    """Runs the demo; when a step of `kill_at_step` was announced, kills that service with -9."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "examples.lookup.demo", *args, "--set", f"run.root={root}", cwd=REPO,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    lines: list[str] = []
    kills = dict(kill_at_step or {})
    async for raw in process.stdout:
        lines.append(raw.decode())
        for step, service in list(kills.items()):
            if f"step {step}:" in lines[-1]:
                # Half a second into the next step its rollouts are under way.
                await asyncio.sleep(0.5)
                find_service(process.pid, service).kill()
                del kills[step]
    code = await process.wait()
    out = "".join(lines)
    assert not kills, out
    files = list(root.glob("*/summary.json"))
    assert len(files) == 1, out
    return Ended(code, out, json.loads(files[0].read_text()))


def accounts_agree(s: dict[str, Any]) -> bool:
    return bool(s["tokens_sampled"] == s["tokens_trained"] + s["tokens_masked"] + s["tokens_dropped"])


async def test_the_demo_learns_though_collector_and_proxy_are_killed(tmp_path: Path) -> None:
    ended = await demo(tmp_path, "--seed", "0", "--steps", "7", kill_at_step={2: "collector", 4: "proxy"})
    s = ended.summary
    assert ended.code == 0, ended.out
    assert "collector died (signal SIGKILL) and was restarted" in ended.out
    assert "proxy died (signal SIGKILL) and was restarted" in ended.out
    assert s["heldout_before"] >= 0.15, s
    assert s["heldout_after"] >= s["heldout_before"] + 0.35, s
    assert s["max_logprob_gap"] < 1e-4, s
    assert accounts_agree(s), s


async def test_a_coin_in_place_of_the_verifier_teaches_nothing(tmp_path: Path) -> None:
    ended = await demo(tmp_path, "--seed", "0", "--steps", "5", "--reward", "coin")
    s = ended.summary
    assert ended.code == 0, ended.out
    assert s["heldout_after"] <= s["heldout_before"] + 0.1, s
    assert accounts_agree(s), s
