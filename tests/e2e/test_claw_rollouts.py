"""Tasks of an office in real sandboxes: solutions that go through the service beside the agent, and states that do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from examples.claw.write_tasks import TASKS
from tests.e2e.test_tasks_check import check
from tests.unit.orchestrator.runners import isolation_of

pytestmark = [pytest.mark.slow, pytest.mark.real]
FORGE = """#!/bin/sh
# Writes the state that the task asks for, without asking the service.
python3 - <<'END'
import json, os
kept = os.environ["LOGS_DIR"] + "/artifacts/office"
state = json.load(open("office.d/seed.json"))
asked = next(m for m in state["mail"].values() if m["subject"].endswith("?"))
for number in range(100, 1000):
    sent = {"id": f"x{number}", "from": state["me"], "to": [asked["from"]], "cc": [], "subject": "Re", "text": str(number)}
    state["mail"][sent["id"]] = sent | {"folder": "sent", "date": state["now"], "answers": asked["id"]}
os.makedirs(kept, exist_ok=True)
json.dump(state, open(kept + "/state.json", "w"))
END
"""


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    isolation_of("bubblewrap")


def test_solutions_are_worth_1_through_the_service_and_forged_states_0(tmp_path: Path) -> None:
    for name in ("mail-code-easy-1", "calendar-move-easy-1"):
        shutil.copytree(TASKS / name, tmp_path / name)
    shutil.copytree(TASKS / "mail-code-easy-1", tmp_path / "forged")
    toml = tmp_path / "forged" / "task.toml"
    toml.write_text(toml.read_text().replace("claw/mail-code-easy-1", "forged"))
    (tmp_path / "forged" / "solution" / "solve.sh").write_text(FORGE)
    code, found = check(tmp_path)
    rewards = {name: [runs[0]["reward"] for runs in entry["runs"].values()] for name, entry in found.items()}
    assert code == 1
    assert rewards == {"claw/mail-code-easy-1": [0, 1], "claw/calendar-move-easy-1": [0, 1], "forged": [0, 0]}
    assert "do not agree" in found["forged"]["runs"]["oracle"][0]["said"]
