"""The archive of a real small stack: whole after an orderly end, and after collectors were killed; replays byte for byte."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from services.collector.archive import FOLDER
from services.collector.archive_reader import Damage, read
from services.dev.exports import atif
from shared.events import CallRecorded, GroupCompleted, Message, RolloutStart, SessionSealed
from tests.e2e.stacks import LiveStack, live_stack, openforge, write_config
from tests.e2e.test_stack_rollouts import closed, watch, write_task
from tests.unit.dev.test_dev_exports import load_rows
from tests.waiting import until

SIZE = 4


async def start_group(stack: LiveStack, name: str, tasks: list[Path]) -> str:
    """A group whose rollouts run the tasks in turn, so that their rewards differ."""
    run = stack.config.run.id
    group = f"{run}-{name}"
    for r in range(SIZE):
        await stack.bus.publish(
            RolloutStart(
                run_id=run, rollout_id=f"{group}-r{r}", group_id=group, group_size=SIZE, task_dir=str(tasks[r % len(tasks)]),
                harness="react",
            )
        )  # fmt: skip
    return group


def write_tasks(folder: Path) -> list[Path]:
    """Two of one name, as a group has one task: one is solved, one is not, with a command that looks like a secret."""
    good = write_task(folder / "good", "task", "cat seed.txt > out.txt", "seed")
    bad = write_task(folder / "bad", "task", "echo sk-abcdefghijklmnopqrstuvwx > /tmp/x; echo no > out.txt", "seed")
    return [good, bad]


async def kill_collector(stack: LiveStack) -> None:
    """kill -9 of the collector, as soon as there is one: it may be restarting."""

    def runs() -> bool:
        try:
            return stack.service("collector").is_running()
        except AssertionError:
            return False

    await until(runs, 90)
    stack.service("collector").kill()


async def test_a_run_is_archived_whole_and_replays_byte_for_byte(tmp_path: Path) -> None:
    seen: list[Message] = []
    settings = "[orchestrator]\nconcurrency = 6\n[collector]\ninline_bytes = 200\n"
    async with live_stack(write_config(tmp_path, settings)) as stack:
        tap = asyncio.create_task(watch(stack, seen))
        groups = {await start_group(stack, f"g{g}", write_tasks(tmp_path / f"t{g}")) for g in range(3)}
        await until(lambda: closed(seen) == groups, 60)
        run, root = stack.config.run.id, ("--root", stack.config.run.root)
        code, out = await openforge("groups", run, *root)
        assert code == 0, out
        assert out.count("completed") == 3, out
        tap.cancel()
    damage = Damage()
    kept = {m.event_id: m for m in read(stack.folder / FOLDER, damage)}
    assert {m.event_id for m in seen} <= set(kept)
    assert {type(m) for m in kept.values()} >= {CallRecorded, SessionSealed, GroupCompleted}
    assert damage == Damage()
    code, out = await openforge("replay", run, "--json", *root)
    report = json.loads(out)
    assert (code, report["same"], report["differs"], report["incomplete"]) == (0, 3, [], {}), out
    assert report["was"]["groups"] == 3
    assert report["was"]["tokens"]["sampled"] == report["was"]["tokens"]["trained"]
    await check_exports(run, tmp_path / "out", root)


async def check_exports(run: str, out: Path, root: tuple[str, str]) -> None:
    """Half of the rollouts are solved; of those, each format has every one."""
    for to in ("atif", "sft", "parquet"):
        code, said = await openforge("export", run, "--to", to, "--min-reward", "1", "--out", str(out / to), *root)
        assert (code, said.split(":")[0]) == (0, "6 of 12 rollouts"), said
    made = [atif.decode(f.read_bytes()) for f in (out / "atif").rglob("trajectory.json")]
    assert [[s.source for s in t.steps] for t in made] == [["user", "agent", "agent"]] * 6
    chats, rows = load_rows("json", out / "sft" / "train.jsonl"), load_rows("parquet", out / "parquet" / "train.parquet")
    assert (len(chats), len(rows)) == (6, 6)
    sampled = sum(t.final_metrics.total_completion_tokens for t in made if t.final_metrics)
    assert sum(map(sum, rows["response_mask"])) == sampled


async def test_collectors_killed_while_they_archive_lose_nothing(tmp_path: Path) -> None:
    seen: list[Message] = []
    async with live_stack(write_config(tmp_path, "[orchestrator]\nconcurrency = 6\n[bus]\nack_wait_s = 5.0\n")) as stack:
        tap = asyncio.create_task(watch(stack, seen))
        groups = {await start_group(stack, f"g{g}", write_tasks(tmp_path / f"t{g}")) for g in range(4)}
        for calls in (5, 12, 20):
            await until(lambda calls=calls: calls <= sum(isinstance(m, CallRecorded) for m in seen), 60)  # type: ignore[misc]
            await kill_collector(stack)
        await until(lambda: closed(seen) == groups, 90)
        tap.cancel()
    damage = Damage()
    kept = {m.event_id for m in read(stack.folder / FOLDER, damage)}
    assert {m.event_id for m in seen} <= kept
    assert (damage.unreadable, damage.foreign, damage.conflicts) == (0, 0, [])
    assert damage.torn <= 3
    code, out = await openforge("replay", stack.config.run.id, "--json", "--root", stack.config.run.root)
    assert (code, json.loads(out)["same"]) == (0, 4), out
