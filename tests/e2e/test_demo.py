"""The demo itself, whole: real vLLM, real veRL, and learning that can be measured."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services.dev.keys import make_keys
from services.dev.servers import free_port, nats_command, wait_port
from shared.bus.nats import connect_nats
from shared.config import BusConfig
from shared.events import CallRecorded, Message, RolloutScheduled, SessionSealed
from shared.keys import OPERATOR
from tests.e2e.stacks import REPO, find_service
from tests.e2e.traced import check_step, spans_in

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Ended:
    """A demo that ended: exit status, everything it printed, its folder and its summary."""

    code: int
    out: str
    folder: Path
    summary: dict[str, Any]


async def demo(
    root: Path, *args: str, kill_at_step: dict[int, str] | None = None, module: str = "examples.lookup.demo"
) -> Ended:
    """Runs the demo, or another one; when a step of `kill_at_step` was announced, kills that service with -9."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *args, "--set", f"run.root={root}", cwd=REPO,
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
    return Ended(code, out, files[0].parent, json.loads(files[0].read_text()))


async def published(folder: Path) -> list[Message]:
    """What a run left on the bus of its attempts and their calls."""
    port, messages = free_port(), list[Message]()
    argv = nats_command(port, folder / "nats", make_keys(folder / "keys").bus, 8 * 1024 * 1024)
    server = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.DEVNULL)
    try:
        await wait_port(port, 20)
        bus = await connect_nats(BusConfig(url=f"nats://127.0.0.1:{port}", keys=str(folder / "keys")), folder.name, OPERATOR)
        for kind in (RolloutScheduled, CallRecorded, SessionSealed):
            messages += [message async for _, message in bus.replay(kind, "*", "*", 0)]
        await bus.close()
    finally:
        server.terminate()
        await server.wait()
    return messages


def accounts_agree(s: dict[str, Any]) -> bool:
    return bool(s["tokens_sampled"] == s["tokens_trained"] + s["tokens_masked"] + s["tokens_dropped"])


@pytest.mark.usefixtures("nothing_left")
async def test_the_demo_learns_though_collector_and_proxy_are_killed(tmp_path: Path) -> None:
    ended = await demo(tmp_path, "--seed", "0", "--steps", "6", kill_at_step={2: "collector", 4: "proxy"})
    s = ended.summary
    assert ended.code == 0, ended.out
    assert "collector died (signal SIGKILL) and was restarted" in ended.out
    assert "proxy died (signal SIGKILL) and was restarted" in ended.out
    assert s["heldout_before"] >= 0.15, s
    assert s["heldout_after"] >= s["heldout_before"] + 0.35, s
    assert s["max_logprob_gap"] < 1e-4, s
    assert accounts_agree(s), s
    check_that_nothing_was_lost_or_doubled(await published(ended.folder), s)


def check_that_nothing_was_lost_or_doubled(messages: list[Message], summary: dict[str, Any]) -> None:
    """Every numbered call has one record or is named as without; those of training sessions are as many as the summary says.

    A proxy that is killed after a record was durable, and before that was noted, leaves a call that is recorded and counts as
    lost: its attempt is made again.
    """
    calls = Counter(m.event_id for m in messages if isinstance(m, CallRecorded))
    recorded = {(m.session_id, m.seq) for m in messages if isinstance(m, CallRecorded)}
    seals = {m.session_id: m for m in messages if isinstance(m, SessionSealed)}
    sessions = {f"{m.rollout_id}-a{m.attempt}" for m in messages if isinstance(m, RolloutScheduled)}
    assert set(calls.values()) == {1}
    assert set(seals) == sessions
    numbered = {(m.session_id, seq) for m in seals.values() for seq in range(1, m.calls + 1)}
    lost = {(m.session_id, seq) for m in seals.values() for seq in m.lost}
    assert recorded | lost == numbered - {(m.session_id, seq) for m in seals.values() for seq in m.errored}
    trained = [m for m in seals.values() if m.purpose == "train"]
    assert summary["calls_recorded"] == sum(m.calls - len(m.errored) - len(m.lost) for m in trained)
    assert summary["groups_completed"] + summary["groups_discarded"] == summary["rollouts"] // 8


async def test_a_coin_in_place_of_the_verifier_teaches_nothing_though_rollouts_run_ahead(tmp_path: Path) -> None:
    sets = ("trainer.eval_episodes=128", "trainer.pace.mode=async", "trainer.pace.max_staleness=1", "traces.to=file")
    args = ("--seed", "1", "--steps", "3", "--reward", "coin")
    ended = await demo(tmp_path, *args, *(word for text in sets for word in ("--set", text)))
    s = ended.summary
    assert ended.code == 0, ended.out
    assert s["heldout_after"] <= s["heldout_before"] + 0.1, s
    assert accounts_agree(s), s
    steps = [json.loads(line) for line in (ended.folder / "metrics.jsonl").read_text().splitlines()]
    # Step 2 begins with groups that were started for the weights before it.
    assert [step.get("staleness/max", 0) <= 1 for step in steps] == [True] * len(steps)
    assert any(step.get("staleness/max") == 1 for step in steps), steps
    spans = spans_in(ended.folder / "traces")
    stepped = [s for s in spans if s["name"].startswith("step ")]
    assert len(stepped) == 3
    for step in stepped:
        check_step(step, spans)
