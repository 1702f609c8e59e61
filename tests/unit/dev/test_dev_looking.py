"""What `runs`, `groups`, `show` and `replay` print of a run that is over."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from services.collector.archive import FOLDER, Segments
from services.collector.history import Rollout, fold
from services.dev.archives import load_rollout, open_run
from services.dev.fates import call_fate
from services.dev.listing import list_groups, list_runs
from services.dev.replay import replay
from services.dev.show import clipped, decoder, render, show
from services.dev.shown import shown
from services.dev.transcript import conversations
from shared.config import Config, EngineConfig, RunConfig
from shared.errors import ArchiveError, ConfigError, ForgeError
from shared.events import GroupCompleted, GroupDiscarded, Message, TrajectoryDiscarded, encode
from tests.unit.collector.rollouts import GROUP, RUN, Session
from tests.unit.collector.worlds import failed, scheduled
from tests.unit.dev.histories import messages, raws, rich_session, said, user

LOOKUP = Path(__file__).parents[3] / "examples" / "lookup" / "tokenizer"


def write_run(root: Path, told: list[Message], model: str = "", run_id: str = RUN) -> Path:
    folder = root / run_id
    Segments(folder / FOLDER).append([encode(m) for m in told])
    config = Config(run=RunConfig(id=run_id, root=str(root)), engine=EngineConfig(model=model))
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    return root


def printed(told: list[Message], rollout: str = "r0", width: int = 80) -> str:
    history = fold(told)
    found = history.rollouts[rollout]
    out = io.StringIO()
    model = shown(RUN, found, history.groups[GROUP], sorted(found.attempts), "discard", decode=lambda token: "a\n")
    render(model, Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_a_rollout_fits_a_terminal_of_80_columns() -> None:
    text = printed(messages())
    assert max(map(len, text.splitlines())) <= 80
    for line in (
        "group g1: completed",
        "finished: reward 1 by the verifier",
        "5 calls, training rows: 3; 7 tokens sampled: 6 trained, 1 masked",
        "#1 ",
        "aux ",
        "fork: rewritten",
        "system: Be brief.",
        'bash({"command": "cat x"})',
        "[image_url sha256:ab12]",
        "       3  1     -1.0000  'a\\n'",
        "       7  0     -4.0000  'a\\n'",
    ):
        assert line in text, text


def test_calls_that_branch_off_stand_to_the_right() -> None:
    made = Session("r0")
    for before in (None, 1, 2, 1, 4, None):
        made.call([1], [2], messages_from=before, messages=raws(user("x")), reply=said("y"))
    lines = [line.split()[:2] for line in printed([scheduled("r0"), *made.records]).splitlines() if "main" in line]
    assert lines[:6] == [["#1", "main"], ["#2", "main"], ["#3", "main"], ["└", "#4"], ["└", "#5"], ["#6", "main"]]


def test_why_a_call_is_not_trained() -> None:
    told = messages()
    history = fold(told)
    rollout, group = history.rollouts["r0"], history.groups[GROUP]
    attempt = rollout.attempts[1]
    assert [call_fate(n, attempt, rollout, group) for n in range(1, 6)] == ["trained"] * 3 + ["aux", "trained"]
    group.closed = GroupDiscarded(run_id=RUN, group_id=GROUP, reason="no_variance")
    assert call_fate(1, attempt, rollout, group) == "no_variance"
    group.closed = None
    assert call_fate(1, attempt, rollout, group) == "waits for the group"
    group.closed = GroupCompleted(run_id=RUN, group_id=GROUP)
    assert call_fate(1, attempt, rollout, group) == "superseded"
    assert call_fate(1, attempt, Rollout("r0", GROUP, "eval"), group) == "eval"
    attempt.settled = TrajectoryDiscarded(run_id=RUN, rollout_id="r0", group_id=GROUP, reason="FidelityError")
    assert call_fate(1, attempt, rollout, group) == "FidelityError"
    attempt.settled = None
    assert call_fate(1, attempt, rollout, group) == "waits for the attempt"


def test_a_failure_says_why_there_is_no_reward() -> None:
    told: list[Message] = [scheduled("r0"), failed("r0", reason="VerifierError", detail="no reward file", final=False)]
    assert "failed: no reward; VerifierError: no reward file; another attempt followed" in printed(told, width=200)


def test_conversations_leave_out_what_no_harness_got_and_earlier_tries() -> None:
    made = rich_session()
    calls = {c.seq: c for c in made.records}
    assert [[c.seq for c in found.calls] for found in conversations(calls)] == [[1, 2], [3], [1, 5]]
    assert [[c.seq for c in found.calls] for found in conversations(calls, made.sealed(cut=[3]))] == [[1, 2], [1, 5]]
    again = Session("r0")
    for _ in range(3):
        again.call([1], [2], messages=raws(user("x")), reply=said("y"))
    again.call([1, 2, 3], [4], messages=raws(user("z")), messages_from=2, reply=said("y"))
    assert [[c.seq for c in found.calls] for found in conversations({c.seq: c for c in again.records})] == [[2, 4]]


def test_show_as_json_has_everything_and_texts_of_the_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_run(tmp_path, messages(), str(LOOKUP))
    assert show(root, RUN, "r0", attempt=1, tokens=True, as_json=True) == 0
    model = json.loads(capsys.readouterr().out)
    [attempt] = model["attempts"]
    assert (model["group"], attempt["reward"], len(attempt["calls"])) == ("completed", 1.0, 5)
    first = attempt["calls"][0]
    assert first["messages"][1]["content"].startswith("Read /home/ann/x")
    texts = decoder(open_run(root))
    assert first["tokens"][0] == {"id": 3, "text": texts(3), "mask": 1, "logprob": -1.0}
    assert texts(40)


def test_lists_are_printed_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_run(tmp_path, messages())
    (root / RUN / "summary.json").write_text('{"ok": true, "steps": 3, "heldout_before": 0.25}')
    assert list_runs(root, as_json=True) == 0
    [run] = json.loads(capsys.readouterr().out)
    assert (run["run_id"], run["state"], run["steps"], run["heldout_before"]) == (RUN, "ended", 3, 0.25)
    assert list_groups(root, "", as_json=True) == 0
    [group] = json.loads(capsys.readouterr().out)
    assert (group["state"], group["rewards"], group["rollouts"]) == ("completed", [1.0, 0.0], ["r0", "r1"])
    assert list_runs(root, as_json=False) == list_groups(root, RUN, as_json=False) == 0
    assert "completed" in capsys.readouterr().out


def test_a_rollout_is_found_without_the_id_of_its_run(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, [scheduled(f"{RUN}-s1-g01-r0")]))
    for name in (f"{RUN}-s1-g01-r0", "s1-g01-r0"):
        _, found, _ = load_rollout(run, name)
        assert found.rollout_id == f"{RUN}-s1-g01-r0"
    with pytest.raises(ArchiveError, match="did you mean"):
        load_rollout(run, f"{RUN}-s1-g01-r1")


def test_a_replay_says_what_another_policy_would_have_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_run(tmp_path, messages())
    assert replay(root, RUN, [], as_json=False) == 0
    assert "1 the same byte for byte, 0 differ" in capsys.readouterr().out
    assert replay(root, RUN, ["collector.max_row_tokens=4"], as_json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["was"]["tokens"]["trained"], report["would_be"]["tokens"]["trained"]) == (9, 4)
    assert report["would_be"]["tokens"]["reasons"] == {"aux": 1, "overlong": 5}


def test_a_forged_archive_is_found_out(tmp_path: Path) -> None:
    told = [msgspec.structs.replace(m, reward=0.25) if m.event_id == "rollout-finished-r0-a1" else m for m in messages()]
    assert replay(write_run(tmp_path, told), RUN, [], as_json=True) == 1


@pytest.mark.parametrize(
    ("rollout", "run", "why"),
    [
        ("r00", RUN, "did you mean r0"),
        ("zzz", RUN, "there are r0, r1"),
        ("r0", "rum", "no run 'rum'.*did you mean run"),
    ],
)
def test_unknown_names_are_answered_with_close_ones(tmp_path: Path, rollout: str, run: str, why: str) -> None:
    with pytest.raises(ForgeError, match=why):
        show(write_run(tmp_path, messages()), run, rollout, attempt=0, tokens=False, as_json=True)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no runs are there"):
        open_run(tmp_path)
    root = write_run(tmp_path, messages())
    with pytest.raises(ArchiveError, match="no attempt 2; there are 1"):
        show(root, RUN, "r0", attempt=2, tokens=False, as_json=True)
    with pytest.raises(ConfigError, match="settings of the collector only"):
        replay(root, RUN, ["trainer.algorithm.gamma=0.5"], as_json=True)


def test_long_texts_are_clipped_with_a_note() -> None:
    assert clipped("short") == "short"
    assert clipped("line\n" * 30).endswith("… (101 more characters)")
