"""A real stack, and one rollout on it for every cell of the table."""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.proxy.sampling import call_seed
from shared.events import (
    CallRecorded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutStart,
    RolloutTimedOut,
    SessionSealed,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)
from shared.ids import session_id
from shared.subjects import tap_pattern
from tests.conformance.scenes import INSTRUCTION, SCENES, mark
from tests.e2e.stacks import LiveStack, live_stack

CONTEXT = 65536
SITE = Path(__file__).parent / "site.py"
AGENT_S = 600.0
_AFTER_S = 60.0  # what a rollout may take besides its agent: start, verifier, assembly
_MORE = 8  # calls that the engine may have seen beyond those that were numbered, to be found out
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one rollout left behind.

    Attributes:
        outcome: finished, timed out or failed; None when it never ended.
        sealed: how its session was closed.
        records: of its calls.
        assembled: what the collector made of them.
        engine: lines of the engine's log by call number, in their order.
        output: what the program printed.
    """

    outcome: RolloutFinished | RolloutTimedOut | RolloutFailed | None
    sealed: SessionSealed | None
    records: list[CallRecorded]
    assembled: TrajectoryAssembled | TrajectoryDiscarded | None
    engine: dict[int, list[Json]]
    output: str


@dataclass
class Stage:
    """A stack that runs, and all that was said on its bus by rollout."""

    stack: LiveStack
    folder: Path
    _heard: dict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _cells: int = 0

    async def listen(self) -> None:
        """Takes in what is said, for as long as it is not cancelled."""
        async for tapped in self.stack.bus.tap(tap_pattern("evt", self.stack.config.run.id)):
            if tapped.message is not None:
                async with self._news:
                    self._heard[getattr(tapped.message, "rollout_id", "")].append(tapped.message)
                    self._news.notify_all()

    def heard(self) -> list[Message]:
        """All that was said of any rollout."""
        return [message for messages in self._heard.values() for message in messages]

    async def play(self, harness: str, scene: str, metadata: Mapping[str, int | str]) -> Evidence:
        """Runs one rollout and gathers what it left behind; `metadata` is for the harness's adapter."""
        self._cells += 1
        seed, rollout = self._cells, f"{harness}-{scene}"
        start = RolloutStart(
            run_id=self.stack.config.run.id, rollout_id=rollout, group_id=f"{rollout}-g", group_size=1, purpose="train",
            task_dir=str(write_task(self.folder / "tasks", harness, scene, metadata)), harness=harness, sampling={"seed": seed},
        )  # fmt: skip
        await self.stack.bus.publish(start)
        heard = self._heard[rollout]
        try:
            async with asyncio.timeout(AGENT_S + _AFTER_S), self._news:
                await self._news.wait_for(lambda: _over(heard))
        except TimeoutError:
            pass  # what is missing shows in the evidence
        return self._evidence(rollout, seed, heard)

    def _evidence(self, rollout: str, seed: int, heard: list[Message]) -> Evidence:
        log = self.stack.folder / "rollouts" / session_id(rollout, 1) / "agent.log"
        sealed = _last(heard, SessionSealed)
        return Evidence(
            outcome=_last(heard, RolloutFinished, RolloutTimedOut, RolloutFailed), sealed=sealed,
            records=[m for m in heard if isinstance(m, CallRecorded)],
            assembled=_last(heard, TrajectoryAssembled, TrajectoryDiscarded),
            engine=_engine_calls(self.folder / "engine.jsonl", seed, sealed.calls if sealed else 0),
            output=log.read_text(errors="replace") if log.exists() else "",
        )  # fmt: skip


@asynccontextmanager
async def stage(folder: Path, jobs: int, mode: str, backend: str = "local") -> AsyncIterator[Stage]:
    """A stack in a folder, for as long as the context lasts.

    Args:
        folder: for everything that it leaves behind.
        jobs: rollouts at once.
        mode: of the proxy, `record` or `splice`.
        backend: of sandboxes.
    """
    command = [sys.executable, "-m", "tests.conformance.engine", "--port", "{port}", "--log", f"{folder}/engine.jsonl"]
    config = folder / "openforge.toml"
    config.write_text(
        f"""
[run]
root = "{folder}/runs"
[engine]
max_model_len = {CONTEXT}
command = {json.dumps([*command, "--max-model-len", str(CONTEXT)])}
[proxy]
mode = "{mode}"
[orchestrator]
backend = "{backend}"
concurrency = {jobs}
attempts = 1
timeout_s = {AGENT_S}
keep = "failed"
[trainer]
eval_episodes = 0
"""
    )
    async with live_stack(config) as stack:
        made = Stage(stack, folder)
        listener = asyncio.create_task(made.listen())
        try:
            yield made
        finally:
            listener.cancel()


def write_task(folder: Path, harness: str, scene: str, metadata: Mapping[str, int | str]) -> Path:
    """The task of a cell in Harbor's format."""
    task = folder / f"{harness}-{scene}"
    for part in ("environment", "tests"):
        (task / part).mkdir(parents=True, exist_ok=True)
    head = f'schema_version = "1.4"\n[task]\nname = "conformance/{harness}-{scene}"\n'
    values = {"start": "exec python3 site.py", **metadata}
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items()]
    (task / "task.toml").write_text(f"{head}[metadata]\n{''.join(lines)}")
    (task / "environment" / "site.py").write_text(SITE.read_text(encoding="utf-8"))
    (task / "instruction.md").write_text(INSTRUCTION.format(mark=mark("main", harness, scene)))
    (task / "environment" / "picture.png").write_bytes(picture())
    verdict = f"if {SCENES[scene].wants}; then echo 1; else echo 0; fi"
    (task / "tests" / "test.sh").write_text(f'#!/bin/sh\n{{ {verdict}; }} > "$LOGS_DIR/verifier/reward.txt"\n')
    return task


def picture(side: int = 64) -> bytes:
    """A PNG file: a red square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * side for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _over(heard: list[Message]) -> bool:
    """Nothing more will come of a rollout."""
    outcome = _last(heard, RolloutFinished, RolloutTimedOut, RolloutFailed)
    if isinstance(outcome, RolloutFailed) and not outcome.sealed:
        return True
    return outcome is not None and _last(heard, TrajectoryAssembled, TrajectoryDiscarded) is not None


def _last(heard: list[Message], *kinds: type[Message]) -> Any:
    return next((m for m in reversed(heard) if isinstance(m, kinds)), None)


def _engine_calls(log: Path, seed: int, calls: int) -> dict[int, list[Json]]:
    """A session's lines of the engine's log by call number: its calls' seeds tell them."""
    numbers = {call_seed(seed, 1, seq): seq for seq in range(1, calls + 1 + _MORE)}
    found: dict[int, list[Json]] = defaultdict(list)
    for line in log.read_text().splitlines() if log.exists() else []:
        entry = json.loads(line)
        if entry["seed"] in numbers:
            found[numbers[entry["seed"]]].append(entry)
    return dict(found)
