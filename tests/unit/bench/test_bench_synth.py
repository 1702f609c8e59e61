"""What the bench of synth plants, and when it is content."""

from __future__ import annotations

from typing import Any

import pytest

from services.synth.candidate import Candidate
from tests.bench.synth.planting import Plan, plan_of
from tests.bench.synth.verdict import verdict

FACTS: dict[str, Any] = {"made_again": []}
NAMES = ("null-passes", "exact-copy", "near-copy")


def ends(plan: Plan, **changes: tuple[str, str]) -> list[Candidate]:
    """Candidates that end as they should, but for some: `n3=("accepted", "")`."""
    made = []
    for number in range(plan.count):
        defect = plan.defect(number)
        stage, gate = changes.get(f"n{number}", ("rejected", defect.gates[0]) if defect else ("accepted", ""))
        made.append(Candidate(task_id=f"n{number:05}", number=number, stage=stage, gate=gate, began=1.0, ended=2.0))  # type: ignore[arg-type]
    return made


def test_sound_tasks_come_first_and_each_copy_has_an_original_of_its_own() -> None:
    plan = plan_of(8, NAMES)
    assert [defect.name if (defect := plan.defect(n)) else "" for n in range(8)] == ["", "", "", "", "", *NAMES]
    assert (plan.original(6), plan.original(7)) == (0, 1)


@pytest.mark.parametrize(("count", "names", "said"), [(8, ["rust"], "no defect 'rust'"), (3, NAMES, "leave no sound task")])
def test_a_plan_that_makes_no_sense_is_refused(count: int, names: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan_of(count, names)


def test_the_bench_is_content_if_all_is_caught_and_all_that_is_sound_accepted() -> None:
    plan = plan_of(8, NAMES)
    found = verdict(plan, ends(plan), FACTS)
    assert (found["good"], found["sound"]["accepted"], found["defects"]["caught"]) == (True, 5, 3)
    assert found["defects"]["by_name"]["null-passes"]["by"] == {"null: ": 1}


WRONG = (
    {"n5": ("accepted", "")}, {"n5": ("rejected", "schema")}, {"n5": ("built", "")}, {"n0": ("rejected", "oracle")},
    {"n0": ("tried", "")},
)  # fmt: skip


@pytest.mark.parametrize("changes", WRONG)
def test_a_defect_that_its_gate_did_not_catch_and_a_sound_task_that_was_not_accepted_are_wrong(changes: Any) -> None:
    plan = plan_of(8, NAMES)
    found = verdict(plan, ends(plan, **changes), FACTS)
    assert not found["good"]
    assert found["sound"]["turned_down"] or any(d["missed"] for d in found["defects"]["by_name"].values())


def test_a_trial_that_was_made_again_is_wrong() -> None:
    plan = plan_of(8, NAMES)
    assert not verdict(plan, ends(plan), {"made_again": ["x.json"]})["good"]
    assert not verdict(plan, ends(plan)[1:], FACTS)["good"], "one was lost"
