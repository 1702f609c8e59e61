"""Tasks over pages: a seed makes the same task, others make others, and each can be solved by its pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.example_tasks import folders, of_family
from services.synth.domains import FAMILIES
from services.synth.domains.browser.drawing import SiteFamily
from services.synth.domains.computer.drawing import DeskFamily
from services.synth.domains.parts.kept import Kept
from services.synth.domains.parts.webapp.__main__ import Site
from services.synth.ports import Family
from shared.task import load_task
from tests.unit.synth.screens import digest, made, read, reward, solve_pages, visitor_of

PAGES = [family for family in FAMILIES if family.domain == "browser"]
SCREENS = [family for family in FAMILIES if isinstance(family, SiteFamily | DeskFamily)]
REPO = Path(__file__).parents[3]
AGAIN = """
import sys
from pathlib import Path
from services.synth.domains import FAMILIES
from tests.unit.synth.screens import digest, made
for family in FAMILIES:
    if family.domain in ("browser", "computer"):
        print(family.name, digest(made(family, 5, Path(sys.argv[1]))))
"""
by_name = pytest.mark.parametrize("family", PAGES, ids=lambda family: str(family.name))


def family(name: str) -> Family:
    return next(family for family in PAGES if family.name == name)


def test_a_seed_makes_the_same_task_in_another_process_with_another_hash_seed(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(REPO)}
    argv = [sys.executable, "-c", AGAIN, str(tmp_path / "there")]
    there = subprocess.run(argv, env=env, cwd=REPO, check=True, capture_output=True, text=True).stdout.split()
    here = [word for family in SCREENS for word in (family.name, digest(made(family, 5, tmp_path / "here")))]
    assert here == there


@pytest.mark.parametrize("family", SCREENS, ids=lambda family: str(family.name))
def test_fifty_seeds_make_fifty_tasks(family: SiteFamily | DeskFamily) -> None:
    tasks = [family.drawn(seed) for seed in range(50)]
    assert len({json.dumps([task.instruction, task.settings, task.tables]) for task in tasks}) == 50
    assert len({json.dumps(task.changes) for task in tasks}) > 25
    assert all(task.changes for task in tasks)


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.name))
def test_an_example_is_what_its_family_makes_of_its_seed(folder: Path, tmp_path: Path) -> None:
    found = of_family(folder.name)
    assert found
    assert digest(made(*found, tmp_path)) == digest(folder), "python -m scripts.example_tasks makes them anew"


@by_name
def test_a_task_is_worth_1_when_it_was_solved_by_its_pages_and_0_before(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        task = made(family, seed, tmp_path)
        assert load_task(task).name == f"browser/{family.name}-{seed}"
        before = reward(task)
        solve_pages(task, monkeypatch)
        assert (seed, before, reward(task)) == (seed, 0.0, 1.0)


@by_name
def test_what_was_done_is_kept_when_the_site_is_started_again(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = made(family, 2, tmp_path)
    solve_pages(task, monkeypatch)
    before = (task / "environment" / "state.json").read_text()
    kept = Kept(task / "environment")
    assert json.loads(before)["tables"] == kept.tables
    visitor_of(task / "environment")
    assert (task / "environment" / "state.json").read_text() == before


@by_name
def test_looking_at_every_page_changes_nothing(family: Family, tmp_path: Path) -> None:
    task = made(family, 1, tmp_path)
    visitor, known = visitor_of(task / "environment"), read(task, "solution/known.json")
    if "user" in known:
        visitor.send("Sign in", user=known["user"], password=known["password"])
    left, seen = ["/"], set[str]()
    while left:
        to = left.pop()
        if to not in seen and len(seen) < 150:
            seen.add(to)
            left += visitor.go(to).links.values()
    assert len(seen) > 10
    assert reward(task) == 0
    assert not (task / "environment" / "state.json").exists()


def test_who_has_not_signed_in_sees_no_page_and_changes_nothing(tmp_path: Path) -> None:
    task = made(family("forum-moderate"), 0, tmp_path)
    visitor = visitor_of(task / "environment")
    assert visitor.go("/members").links == {}
    assert "wrong" in visitor.send("Sign in", user="moderator", password="guess").text
    visitor.go("/post/1/hide", b"")
    assert not (task / "environment" / "state.json").exists()


def test_a_form_says_what_is_wrong_with_it_and_its_pages_come_in_order(tmp_path: Path) -> None:
    task = made(family("permit-form"), 0, tmp_path)
    visitor = visitor_of(task / "environment")
    visitor.go("/apply/3")
    assert "step 1 of 3" in visitor.page.text
    page = visitor.send("Continue", name="A <b>", born="9 March 1987", phone="")
    assert "Date of birth: as year-month-day" in page.text
    assert "Telephone: please fill in." in page.text
    assert page.forms[-1].fields["name"] == "A <b>"
    assert "step 1 of 3" in visitor.go("/apply/review").text
    assert reward(task) == 0


def test_a_shop_sells_no_more_than_it_has(tmp_path: Path) -> None:
    task = made(family("shop-order"), 0, tmp_path)
    stock = {row["stock"]: row["id"] for row in read(task, "environment/data.json")["tables"]["products"]}
    visitor = visitor_of(task / "environment")
    few = min(number for number in stock if number)
    visitor.go(f"/product/{stock[few]}")
    assert "not as many" in visitor.send("Add to cart", quantity=str(few + 1)).text
    visitor.go(f"/product/{stock[few]}")
    visitor.send("Add to cart", quantity=str(few))
    visitor.go(f"/product/{stock[few]}")
    assert "not as many" in visitor.send("Add to cart", quantity="1").text
    assert "from 1" in visitor.send("Add to cart", quantity="-1").text


def test_a_room_is_not_booked_twice(tmp_path: Path) -> None:
    task = made(family("booking-move"), 0, tmp_path)
    rows = [row for row in read(task, "environment/data.json")["tables"]["bookings"] if row["status"] == "booked"]
    visitor = visitor_of(task / "environment")
    visitor.go(f"/booking/{rows[0]['id']}")
    place = {name: rows[1][name] for name in ("room", "day", "hour")}
    assert f"taken on {rows[1]['day']}" in visitor.send("Move booking", **place).text
    assert reward(task) == 0


def test_a_wrong_answer_before_the_right_one_costs(tmp_path: Path) -> None:
    task = made(family("wiki-find"), 0, tmp_path)
    (change,) = read(task, "tests/expected.json")["changes"]
    visitor = visitor_of(task / "environment")
    for answer in ("something else", change["set"]["answer"]):
        visitor.go("/desk")
        visitor.send("Send answer", answer=answer)
    assert reward(task) == 0


def test_hiding_every_post_is_worth_less_than_hiding_the_right_ones(tmp_path: Path) -> None:
    task = made(family("forum-moderate"), 0, tmp_path)
    known, tables = read(task, "solution/known.json"), read(task, "environment/data.json")["tables"]
    visitor = visitor_of(task / "environment")
    visitor.send("Sign in", user=known["user"], password=known["password"])
    for row in tables["posts"]:
        visitor.go(f"/post/{row['id']}/hide", b"")
    assert 0 < reward(task) < 0.5


@pytest.mark.parametrize(
    "target", ["/article/none", "/../etc/passwd", "/article/%2e%2e", "/x?page=-1", "/articles?page=9e9", "/%", "//["]
)
def test_odd_addresses_are_answered(target: str, tmp_path: Path) -> None:
    site = Site(Kept(made(family("wiki-find"), 0, tmp_path) / "environment"))
    answer, _ = site.answer("GET", target, "", "no such session")
    assert answer.status in (200, 404)
    assert site.answer("POST", target, "a=1&&=&b", "")[0].status == 404
