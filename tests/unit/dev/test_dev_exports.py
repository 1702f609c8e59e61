"""Exports: golden files, what `datasets` makes of them, and what must not be in them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.collector.archive import FOLDER, Segments
from services.dev.exports import atif
from services.dev.exports.export import Wish, export
from services.dev.exports.redact import redact
from services.dev.exports.selection import Filter
from shared.config import Config, RunConfig
from shared.errors import ArchiveError, ConfigError
from shared.events import encode
from tests.unit.collector.rollouts import RUN
from tests.unit.dev.histories import IMAGE, SECRET, TOOLS, messages

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one run."""
    folder = tmp_path / "runs" / RUN
    segments = Segments(folder / FOLDER)
    segments.append([encode(m) for m in messages()])
    segments.keep_medium(IMAGE, b"\x89PNG...")
    (folder / "config.json").write_bytes(msgspec.json.encode(Config(run=RunConfig(id=RUN, root=str(folder.parent)))))
    return folder.parent


def run_export(root: Path, to: str, redacted: bool = False, **wanted: Any) -> Path:
    out = root.parent / f"out-{to}"
    assert export(root, RUN, Wish(to, out, redacted, Filter(**wanted))) == 0
    return out


def load_rows(kind: str, file: Path) -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.load_dataset(kind, data_files=str(file), split="train", cache_dir=str(file.parent / "cache"))


def test_atif_is_what_it_was(root: Path) -> None:
    out = run_export(root, "atif", min_reward=1.0)
    (file,) = out.rglob("trajectory.json")
    assert file == out / "r0" / "agent" / "trajectory.json"
    assert json.loads(file.read_bytes()) == json.loads((GOLDEN / "atif.json").read_bytes())
    assert (file.parent / "media" / f"{IMAGE}.png").read_bytes() == b"\x89PNG..."
    made = atif.decode(file.read_bytes())
    ids = [s.metrics.completion_token_ids for t in (made, *(made.subagent_trajectories or ())) for s in t.steps if s.metrics]
    assert sorted(ids) == [[3, 4], [6], [9], [12, 13]]  # every call once, but for the title


def test_atif_is_strict() -> None:
    whole = json.loads((GOLDEN / "atif.json").read_bytes())
    for broken, why in (
        ({"surprise": 1}, "unknown field"),
        ({"schema_version": "ATIF-v9"}, "Invalid enum value"),
        ({"steps": []}, "has no steps"),
        ({"steps": [{"step_id": 2, "source": "user", "message": "x"}]}, "is numbered 2"),
        ({"steps": [{"step_id": 1, "source": "user", "message": "x", "model_name": "m"}]}, "agent's fields"),
    ):
        with pytest.raises(ArchiveError, match=why):
            atif.decode(json.dumps({**whole, **broken}).encode())


def test_chat_rows_are_loaded_by_datasets_with_their_tools(root: Path) -> None:
    rows = load_rows("json", run_export(root, "sft", task="task") / "train.jsonl")
    assert [(r["rollout_id"], r["role"], r["reward"]) for r in rows] == [
        ("r0", "main", 1.0), ("r0", "sub", 1.0), ("r0", "main", 1.0), ("r1", "main", 0.0),
    ]  # fmt: skip
    assert json.loads(rows[0]["tools"]) == TOOLS
    assert rows[1]["tools"] is None
    assert [m["role"] for m in rows[0]["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert rows[0]["messages"][2]["reasoning_content"] == "hm"
    assert rows[0]["messages"][2]["tool_calls"][0]["function"] == {"name": "bash", "arguments": '{"command": "cat x"}'}
    assert rows[0]["messages"][3]["content"] == f"seed\n[image_url sha256:{IMAGE}]"
    assert rows[2]["messages"][-1]["content"] == "again done"
    assert "tool_calls" not in rows[0]["messages"][0]


def test_token_rows_have_the_names_of_verl(root: Path) -> None:
    rows = load_rows("parquet", run_export(root, "parquet", min_reward=1.0) / "train.parquet")
    assert [(r["prompts"], r["responses"], r["response_mask"]) for r in rows] == [
        ([1, 2], [3, 4, 5, 6], [1, 1, 0, 1]), ([8], [9], [1]), ([1, 2], [3, 4, 11, 12, 13], [0, 0, 0, 1, 1]),
    ]  # fmt: skip
    assert {(r["uid"], r["reward"], r["group"]) for r in rows} == {("g1", 1.0, "completed")}
    assert rows[0]["rollout_log_probs"] == [-1.0, -1.015625, 0.0, -2.0]


@pytest.mark.parametrize("to", ["atif", "sft"])
def test_a_redacted_export_has_no_secret_no_home_and_no_ids(root: Path, to: str) -> None:
    plain = "".join(f.read_text() for f in run_export(root, to).rglob("*.json*"))
    assert SECRET in plain
    assert "/home/ann" in plain
    out = root.parent / "redacted"
    assert export(root, RUN, Wish(to, out, True, Filter())) == 0
    assert list(out.rglob("*.png")) == []
    text = "".join(f.read_text() for f in out.rglob("*.json*"))
    assert SECRET not in text
    assert "ann" not in text
    assert "token_ids" not in text
    assert "Read [HOME]/x, key [SECRET]" in text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("ghp_0123456789abcdefghijABCD", "[SECRET]"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer [SECRET]"),
        ('{"api_key": "0123456789abcdef"}', '{"api_key": "[SECRET]"}'),
        ("OPENAI_API_KEY=0123456789abcdef", "OPENAI_API_KEY=[SECRET]"),
        ("/Users/ann/a /root/.ssh /tmp/of-1/b;", "[HOME]/a [HOME]/.ssh [TMP]/b;"),
        ("the token count is 12; /rooted /tmp", "the token count is 12; /rooted /tmp"),
        ("sk-learn, task-force, a tokenizer: bert-base", "sk-learn, task-force, a tokenizer: bert-base"),
    ],
)
def test_what_looks_like_a_secret_is_replaced(text: str, clean: str) -> None:
    assert redact(text) == clean
    assert redact(clean) == clean


def test_what_cannot_be_done_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wish, why in (
        (Wish("csv", None, False, Filter()), "atif, sft, parquet"),
        (Wish("parquet", None, True, Filter()), "cannot be redacted"),
        (Wish("sft", None, False, Filter(purpose="test")), "train, eval"),
    ):
        with pytest.raises(ConfigError, match=why):
            export(root, RUN, wish)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"openforgerl\[trainer\]"):
        export(root, RUN, Wish("parquet", None, False, Filter()))
    assert export(root, RUN, Wish("sft", root.parent / "none", False, Filter(min_reward=2.0))) == 1
