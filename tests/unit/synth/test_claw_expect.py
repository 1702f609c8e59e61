"""What verifiers of claw tasks expect: what is worth something, what is not, and what makes all worth nothing."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.synth.domains.claw.draft import OfficeFamily
from services.synth.domains.claw.families.program import fix
from services.synth.domains.claw.office.compare import has
from services.synth.domains.claw.office.engine import Office
from services.synth.domains.claw.office.expect import Expect
from tests.unit.synth.test_claw_office import office_of

Check = Callable[[Expect], None]


def reward(tmp_path: Path, office: Office, *checks: Check) -> float:
    expect = Expect(office_of(), office.state, tmp_path / "app", tmp_path / "logs")
    for check in checks:
        check(expect)
    expect.nothing_else_changed()
    expect.finish()
    return float((tmp_path / "logs" / "verifier" / "reward.txt").read_text())


def replied(expect: Expect) -> None:
    expect.mail_sent(to=expect.seed["mail"]["m1"]["from"], contains=["42.50"], lacks=["17.00"], answers="m1")


def reply(text: str) -> tuple[str, str, dict[str, Any]]:
    return "POST", "/mail/m1/reply", {"text": text}


@pytest.mark.parametrize(
    ("requests", "worth"),
    [
        ([], 0),
        ([reply("It is 42.50.")], 1),
        ([reply("It is 142.50.")], 0),
        ([reply("It is 42.505")], 0),
        ([reply("42.50 or 17.00")], 0),
        ([reply("It is 42.50."), reply("Hello")], 0), ([reply("It is 42.50."), ("DELETE", "/mail/m2", {})], 0),
        ([("POST", "/mail", {"to": ["a@b.test"], "subject": "x", "text": "42.50"})], 0),
        ([reply("It is 42.50."), ("GET", "/mail/m3", {})], 1),
    ],
)  # fmt: skip
def test_one_right_answer_is_worth_1_and_nothing_else_may_change(
    tmp_path: Path, requests: list[tuple[str, str, dict[str, Any]]], worth: float
) -> None:
    office = Office(office_of())
    for method, path, body in requests:
        office.call(method, path, {}, body)
    assert reward(tmp_path, office, replied) == worth


def test_a_part_is_worth_a_part(tmp_path: Path) -> None:
    def moved(expect: Expect) -> None:
        expect.mails_moved(["m1", "m2", "m3", "m4"], "archive")

    office = Office(office_of())
    assert reward(tmp_path, office, moved) == 0
    office.call("PATCH", "/mail/m2", {}, {"folder": "archive"})
    assert reward(tmp_path, office, moved) == 0.25
    assert reward(tmp_path, office, moved, replied) == 0.125
    office.call("PATCH", "/mail/m5", {}, {"folder": "archive"})
    assert reward(tmp_path, office, moved) == 0


def test_events_contacts_chat_and_files_of_the_office_are_compared_exactly(tmp_path: Path) -> None:
    def all_done(expect: Expect) -> None:
        expect.event_at("e1", "2026-03-09T11:00", "2026-03-09T12:00")
        expect.contact_is("c1", phone="555-1")
        expect.posted("general", ["2 votes"])
        expect.office_file("notes/new.txt", "a\nb\n")
        expect.event_created(title="Talk", start="2026-03-09T13:00", end="2026-03-09T14:00", attendees=["a@b.test"])
        expect.event_deleted("e2")

    office = Office(office_of())
    office.state["events"]["e2"] = dict(office.state["events"]["e1"], id="e2")
    office.state["last"]["events"] = 2
    before = Office(office.state)
    for method, path, body in (
        ("PATCH", "/events/e1", {"start": "2026-03-09T11:00", "end": "2026-03-09T12:00"}),
        ("PATCH", "/contacts/c1", {"phone": "555-1"}),
        ("POST", "/chat/general", {"text": "Result: 2 votes"}), ("PUT", "/files/notes/new.txt", {"text": "a  \nb"}),
        ("POST", "/events", {
            "title": "Talk", "start": "2026-03-09T13:00", "end": "2026-03-09T14:00", "attendees": ["a@b.test"]}),
        ("DELETE", "/events/e2", None),
    ):  # fmt: skip
        assert office.call(method, path, {}, body)[0] < 300
    expect = Expect(before.state, office.state, tmp_path, tmp_path / "logs")
    all_done(expect)
    expect.nothing_else_changed()
    expect.finish()
    assert (tmp_path / "logs/verifier/reward.txt").read_text() == "1\n"
    untouched = Expect(before.state, before.state, tmp_path, tmp_path / "logs")
    all_done(untouched)
    untouched.finish()
    assert (tmp_path / "logs/verifier/reward.txt").read_text() == "0\n"


def test_files_that_are_renamed_keep_their_text_and_those_that_are_lost_cost_all(tmp_path: Path) -> None:
    app = tmp_path / "app" / "in"
    app.mkdir(parents=True)
    names, texts = {"in/a b.txt": "in/a-b.txt", "in/c d.txt": "in/c-d.txt"}, ["one", "two"]

    def renamed(expect: Expect) -> None:
        expect.files_renamed(names, texts)

    def worth() -> float:
        return reward(tmp_path, Office(office_of()), renamed)

    (app / "a b.txt").write_text("one")
    (app / "c d.txt").write_text("two")
    assert worth() == 0
    (app / "a b.txt").rename(app / "a-b.txt")
    assert worth() == 0.5
    (app / "c d.txt").unlink()
    assert worth() == 0
    (app / "c-d.txt").write_text("two")
    assert worth() == 1


WRONG = "print('wrong')\n"
FORGES = """import os, time
reward = os.environ["LOGS_DIR"] + "/verifier/reward.txt"
if not os.fork():
    os.setsid()
    while not os.path.exists(reward):
        time.sleep(0.01)
    time.sleep(0.1)
    open(reward, "w").write("1")
print("wrong")
"""
READS = """import os
print(open(os.environ["TESTS_DIR"] + "/check.py").read())
"""


@pytest.mark.slow
def test_a_program_neither_finds_what_is_wanted_nor_lives_on_to_reward_itself(tmp_path: Path) -> None:
    OfficeFamily("program-fix", fix, "easy").make(1, tmp_path / "task")
    (name,) = {path.name for path in (tmp_path / "task" / "environment").glob("*.py")} - {"check.py"}
    for number, program in enumerate((WRONG, FORGES, READS)):
        app, tests, logs = (tmp_path / str(number) / part for part in ("app", "tests", "logs"))
        shutil.copytree(tmp_path / "task" / "environment", app)
        shutil.copytree(tmp_path / "task" / "tests", tests)
        (app / name).write_text(program)
        env = {"PATH": "/usr/bin:/bin", "APP_DIR": str(app), "LOGS_DIR": str(logs), "TESTS_DIR": str(tests)}
        said = subprocess.run(["/bin/sh", str(tests / "test.sh")], env=env, capture_output=True, text=True, check=True).stdout
        time.sleep(0.3)
        assert (logs / "verifier" / "reward.txt").read_text() == "0\n"
        assert "wrong for input 1 of 5" in said
        assert not tests.exists()


@pytest.mark.parametrize(
    ("text", "words", "there"),
    [
        ("It is 42.", "42", True), ("It is 42.5", "42", False), ("It is 142", "42", False), ("1,42", "42", False),
        ("the  Blue\nroom won", "blue room", True), ("bluer", "blue", False), ("555-1234", "555-123", False),
    ],
)  # fmt: skip
def test_words_are_found_as_words(text: str, words: str, there: bool) -> None:
    assert has(text, words) is there
