"""The conformance suite itself: its data fits the adapters, its model plays the scenes, its checks see what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.orchestrator.harnesses.adapter import load
from services.orchestrator.harnesses.library import adapter_files
from shared.events import CallRecorded, RolloutFinished, SessionSealed, TokenCounts, TrajectoryAssembled
from shared.packing import digest_packed, pack_floats, pack_ids
from tests.conformance.checks import complaints
from tests.conformance.model import ConformanceModel
from tests.conformance.programs import Program, load_programs
from tests.conformance.scenes import INSTRUCTION, SCENES, mark
from tests.conformance.stage import Evidence
from tests.conformance.table import EXCUSED, PASS, good
from tests.engine.real_prompt import Prompt, Turn

PROGRAMS = load_programs()
OURS = {"computer", "zeroclaw", "null", "oracle", "cheat"}
"""Adapters that the table leaves out: one has tests of its own, one's program cannot be had, two call no model."""


def test_every_program_is_in_the_table() -> None:
    assert set(PROGRAMS) == set(adapter_files()) - OURS
    for program in PROGRAMS.values():
        assert set(program.lacks) | set(program.ends) | set(program.rows) <= set(SCENES)
        assert all((*program.lacks.values(), *program.ends.values()))
    assert not load(adapter_files()["claude"]).untested


def ask(model: ConformanceModel, harness: str, turns: list[Turn]) -> tuple[int, str, str]:
    """Status, text and note of what is said."""
    program = PROGRAMS[harness]
    tools = [tool.name for tool in (program.shell, program.write, program.image, program.subagent) if tool]
    said = model.say(Prompt(turns, tools, 0, {}))
    return said.status, said.text, said.note


def calls_in(text: str) -> list[dict[str, Any]]:
    return [json.loads(part.partition("\n</tool_call>")[0]) for part in text.split("<tool_call>\n")[1:]]


PLAYED = ("plain", "streaming", "tools", "parallel", "thinking", "retry", "image")
CELLS = [
    (name, scene) for name, p in PROGRAMS.items() for scene in PLAYED if not p.rewrites and scene not in p.lacks
]  # fmt: skip


@pytest.mark.parametrize(("harness", "scene"), CELLS)
def test_a_scene_ends_after_a_few_turns(harness: str, scene: str) -> None:
    model, finish = ConformanceModel(PROGRAMS), PROGRAMS[harness].finish
    turns = [Turn("system", "Be good."), Turn("user", INSTRUCTION.format(mark=mark("main", harness, scene)))]
    statuses: list[int] = []
    ended = False
    while not ended and len(statuses) < 8:
        status, text, note = ask(model, harness, turns)
        assert note == "main"
        statuses.append(status)
        if status == 200:
            calls = calls_in(text)
            turns += [Turn("assistant", text), *(Turn("tool", "ok") for _ in calls)]
            ended = not calls or (finish != "" and finish in text)
    assert ended
    assert statuses[:2] == ([429, 500] if scene == "retry" else [200, 200])


def test_calls_without_a_mark_are_auxiliary() -> None:
    model = ConformanceModel(PROGRAMS)
    assert ask(model, "claude", [Turn("user", "Write a title.")])[2] == "aux"
    task = Turn("user", mark("main", "claude", "compaction"))
    order = Turn("user", "Your task is to create a detailed summary of the conversation so far, ...")
    assert ask(model, "claude", [Turn("system", "x"), task])[2] == "main"
    assert ask(model, "claude", [Turn("system", "x"), task, Turn("assistant", "y"), order])[2] == "summary"
    assert ask(model, "claude", [Turn("user", mark("sub", "claude", "subagent"))])[2] == "sub"


IDS, SAID = [1, 2, 3], [4, 5]
RECORD = CallRecorded(
    run_id="run", rollout_id="r", group_id="g", session_id="r-a1", seq=1, api="openai.chat", model="policy", prompt_len=3,
    prompt_delta=pack_ids(IDS), prompt_digest=digest_packed(pack_ids(IDS)), completion=pack_ids(SAID),
    logprobs=pack_floats([-0.1, -0.2]), finish_reason="stop", weight_version_start=0, weight_version_end=0,
)  # fmt: skip
ENTRY = {
    "seed": 1, "note": "main", "status": 200, "prompt_len": 3, "prompt_digest": RECORD.prompt_digest, "token_ids": SAID,
    "finish_reason": "stop", "streamed": False, "images": 0,
}  # fmt: skip
GOOD = Evidence(
    outcome=RolloutFinished(run_id="run", rollout_id="r", group_id="g", group_size=1, task="t", harness="h", reward=1.0),
    sealed=SessionSealed(run_id="run", rollout_id="r", group_id="g", session_id="r-a1", calls=1),
    records=[RECORD],
    assembled=TrajectoryAssembled(
        run_id="run", rollout_id="r", group_id="g", reward=1.0, calls=1, rows=1, tokens=TokenCounts(sampled=2, trained=2)
    ),
    engine={1: [ENTRY]},
    output="",
)  # fmt: skip


def wrong(evidence: Evidence, scene: str = "plain", program: Program | None = None) -> str:
    return "; ".join(complaints(scene, program or PROGRAMS["react"], evidence, "splice"))


def changed(struct: Any, **fields: Any) -> Any:
    return type(struct)(**{name: getattr(struct, name) for name in struct.__struct_fields__} | fields)


def test_a_good_cell_passes() -> None:
    assert wrong(GOOD) == ""


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"outcome": None}, "never ended"),
        ({"outcome": changed(GOOD.outcome, reward=0.0)}, "the task was not done"),
        ({"sealed": None}, "not sealed"),
        ({"sealed": changed(GOOD.sealed, calls=2)}, "calls [2] have no record"),
        ({"sealed": changed(GOOD.sealed, lost=[1])}, "are lost"),
        ({"records": [RECORD, RECORD]}, "recorded twice"),
        ({"records": [changed(RECORD, completion=pack_ids([4, 6]))]}, "other tokens were recorded"),
        ({"records": [changed(RECORD, prompt_digest="0")]}, "another prompt was recorded"),
        ({"records": [changed(RECORD, role="sub")]}, "the role sub, not main"),
        ({"engine": {}}, "the engine never saw the calls [1]"),
        ({"engine": {1: [ENTRY, ENTRY]}}, "reached the engine 2 times"),
        ({"engine": {1: [ENTRY], 2: [ENTRY]}}, "call 2 was sampled whole, but has no record"),
        ({"assembled": None}, "nothing assembled"),
        ({"assembled": changed(GOOD.assembled, rows=3)}, "3 rows in place of 1"),
        ({"assembled": changed(GOOD.assembled, tokens=TokenCounts(sampled=2, trained=1))}, "are accounted for"),
    ],
)
def test_what_is_wrong_is_seen(fields: dict[str, Any], complaint: str) -> None:
    assert complaint in wrong(replace(GOOD, **fields))


def test_actions_that_stand_in_an_answer_count_as_tool_calls() -> None:
    def complaint(actions: int) -> str:
        answer = json.dumps({"next_goal": "", "action": [{"send_keys": {"keys": "x"}}] * actions})
        return wrong(replace(GOOD, records=[changed(RECORD, reply={"content": answer})]), "parallel")

    assert complaint(2) == ""
    assert "two tool calls" in complaint(1)


def test_of_a_program_that_rewrites_its_history_each_trained_call_is_a_row() -> None:
    program = PROGRAMS["browser-use"]
    summary = changed(RECORD, seq=2, role="summary")
    evidence = replace(
        GOOD, records=[RECORD, summary], engine={1: [ENTRY], 2: [ENTRY | {"note": "summary"}]},
        sealed=changed(GOOD.sealed, calls=2),
        assembled=changed(GOOD.assembled, calls=2, rows=2, tokens=TokenCounts(sampled=4, trained=4)),
    )  # fmt: skip
    assert wrong(evidence, "compaction", program) == ""
    less = replace(evidence, assembled=changed(evidence.assembled, rows=1))
    assert "1 rows in place of 2" in wrong(less, "compaction", program)


@pytest.mark.parametrize(
    "scene", ["streaming", "parallel", "thinking", "retry", "disconnect", "overflow", "subagent", "compaction", "image"]
)
def test_a_scene_that_was_not_played_does_not_pass(scene: str) -> None:
    assert wrong(GOOD, scene)


def test_only_excuses_are_as_good_as_a_pass() -> None:
    assert good(PASS)
    assert good(EXCUSED + "it does not stream")
    assert not good("")
    assert not good("the task was not done")
