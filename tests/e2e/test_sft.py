"""`openforge sft` as a process: Ctrl-C, kill -9 and once more, on conversations as an export has them."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.e2e.stacks import openforge, start
from tests.engine.tied_model import make_tied_model

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.filterwarnings("ignore")]
PATIENCE_S = 900.0
SETTINGS = """
[engine]
model = "model"
[trainer.warm_start]
steps = 40
batch = 8
lr = 1e-2
val_ratio = 0.2
min_reward = 1.0
"""


def write_rows(folder: Path) -> Path:
    """As `openforge export --to sft` has them, of somebody who is right three times out of four."""
    rows = [
        {
            "messages": [{"role": "user", "content": f"say {w} {i}"}, {"role": "assistant", "content": f"{w} {w} {i}"}],
            "tools": None, "reward": float(i % 4 > 0), "rollout_id": f"r{i}",
        }
        for i, w in enumerate(["yes", "no"] * 20)
    ]  # fmt: skip
    folder.mkdir()
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


async def interrupted(number: int, *args: str) -> tuple[int | None, str]:
    """Ends the command in the middle of its training. Returns its exit status and what it said."""
    process, said = await start("sft", *args), ""
    assert process.stdout is not None
    while "step 10 of 40" not in said:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        assert line, said
        said += line.decode()
    process.send_signal(number)
    said += (await asyncio.wait_for(process.communicate(), PATIENCE_S))[0].decode()
    return process.returncode, said


async def test_whatever_ends_it_the_next_one_makes_the_very_model(tmp_path: Path) -> None:
    make_tied_model(tmp_path / "model")
    config, rows = tmp_path / "sft.toml", write_rows(tmp_path / "export")
    config.write_text(SETTINGS.replace('"model"', f'"{tmp_path}/model"'))

    def args(name: str) -> list[str]:
        root = tmp_path / name
        return [str(config), "--data", str(rows), "--set", f"run.root={root}", "--out", f"{root}/taught", "--json"]

    async with asyncio.TaskGroup() as group:
        ended = group.create_task(interrupted(signal.SIGINT, *args("ended")))
        killed = group.create_task(interrupted(signal.SIGKILL, *args("killed")))
        whole = group.create_task(openforge("sft", *args("whole"), timeout_s=PATIENCE_S))
    code, said = ended.result()
    assert code == 130, said
    assert "ended by a signal; nothing half-made is left" in said
    assert killed.result()[0] == -signal.SIGKILL
    for name in ("ended", "killed"):
        assert not [file for file in (tmp_path / name).rglob("*") if file.is_file()]
    code, out = whole.result()
    assert code == 0, out
    report = json.loads(out.splitlines()[-1])
    assert (report["steps"], report["trained"] + report["held"]) == (40, 30)
    assert report["refused"] == {"a reward below 1": 10}
    assert report["val_loss"][-1]["loss"] < 0.5 * report["val_loss"][0]["loss"]
    code, out = await openforge("sft", *args("killed"), timeout_s=PATIENCE_S)
    assert code == 0, out
    (kept,) = (tmp_path / "whole" / "sft").glob("warm-*")
    places = [kept, tmp_path / "whole" / "taught", tmp_path / "killed" / "sft" / kept.name, tmp_path / "killed" / "taught"]
    assert len({(place / "model.safetensors").read_bytes() for place in places}) == 1  # the same by name, and in every weight
    code, out = await openforge("sft", *args("killed")[:-3], timeout_s=PATIENCE_S)
    assert code == 0, out
    assert "this was trained before: same model, rows and settings" in out
