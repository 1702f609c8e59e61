"""What runs: tasks, a harness that keeps its own account, an engine that keeps another, and a stack with two collectors."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from services.dev.plan import Plan, make_plan
from shared.config import BusConfig, CollectorConfig, Config, EngineConfig, OrchestratorConfig, ProxyConfig, RunConfig
from shared.events import RolloutStart
from tests.engine.script import Rule, Script

HARNESS = Path(__file__).parent / "harness"
SIZE = 4
"""Rollouts of a group."""
TURNS = 5
TARGETS = ("collector", "collector-2", "proxy", "orchestrator", "nats-server", "valkey")
"""What is killed, by the names that the supervisor knows."""

_SHAPES = {
    "plain": {"agents": 1, "rewrite": False, "stream": False},
    "streamed": {"agents": 1, "rewrite": False, "stream": True},
    "parallel": {"agents": 2, "rewrite": False, "stream": True},
    "rewritten": {"agents": 1, "rewrite": True, "stream": False},
}
_PAUSE_S = 0.4  # calls are in flight for a good third of the time
_SCRIPT = Script(rules=[Rule(text="call {number} was answered", delay_s=0.1, token_delay_s=0.005)])


def calls_of(rollouts: int) -> int:
    """Model calls that so many rollouts make when nothing fails."""
    return TURNS * sum(shape["agents"] for shape in _SHAPES.values()) * rollouts // len(_SHAPES)


def engine_log(folder: Path) -> Path:
    """Where the engine writes what it sampled."""
    return folder / "engine.jsonl"


def make_scene(folder: Path, mode: str) -> Plan:
    """Writes tasks and script into an empty folder, and plans the stack."""
    (folder / "script.json").write_bytes(msgspec.json.encode(_SCRIPT))
    for name, shape in _SHAPES.items():
        _write_task(folder / "tasks" / name, json.dumps(shape | {"turns": TURNS, "pause_s": _PAUSE_S}))
    plan = make_plan(_config(folder, mode), ("proxy", "orchestrator", "collector"))
    [collector] = [spec for spec in plan.services if spec.name == "collector"]
    second = replace(collector, name="collector-2", log=collector.log.with_name("collector-2.log"))
    return replace(plan, services=[*plan.services, second])


def starts(plan: Plan, folder: Path, rollouts: int) -> list[RolloutStart]:
    """The commands of all groups; a group's rollouts have one task."""
    run, tasks = plan.config.run.id, sorted(_SHAPES)
    commands = []
    for number in range(rollouts):
        group = f"g{number // SIZE:03}"
        task = folder / "tasks" / tasks[number // SIZE % len(tasks)]
        commands.append(
            RolloutStart(
                run_id=run, rollout_id=f"{group}-r{number % SIZE}", group_id=group,
                group_size=min(SIZE, rollouts - number // SIZE * SIZE), task_dir=str(task), harness="talk",
            )
        )  # fmt: skip
    return commands


def _config(folder: Path, mode: str) -> Config:
    command = [
        sys.executable, "-m", "tests.engine.scripted", "--port", "{port}", "--log", str(engine_log(folder)),
        "--script", str(folder / "script.json"),
    ]  # fmt: skip
    return Config(
        run=RunConfig(root=str(folder / "runs")),
        bus=BusConfig(ack_wait_s=10.0),  # the sooner a killed consumer's messages come again, the sooner the end is there
        engine=EngineConfig(command=command),
        proxy=msgspec.convert({"mode": mode}, ProxyConfig),
        orchestrator=OrchestratorConfig(harness_dir=str(HARNESS)),
        collector=CollectorConfig(),
    )


def _write_task(task: Path, shape: str) -> None:
    for part in ("environment", "solution", "tests"):
        (task / part).mkdir(parents=True)
    (task / "task.toml").write_text(f'schema_version = "1.4"\n[task]\nname = "chaos/{task.name}"\n[agent]\ntimeout_sec = 120\n')
    (task / "instruction.md").write_text(shape)
    (task / "solution" / "solve.sh").write_text("echo 1 > out.txt\n")
    verdict = "cat out.txt 2>/dev/null || echo 0"  # the number of a reply: no two rewards are alike
    (task / "tests" / "test.sh").write_text(f'#!/bin/sh\n{{ {verdict}; }} > "${{LOGS_DIR:-/logs}}/verifier/reward.txt"\n')
