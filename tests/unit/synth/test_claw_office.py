"""The mock office of claw tasks: what requests do to it, and that they do the same again."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from services.synth.domains.claw.office.compare import Tampered, replayed
from services.synth.domains.claw.office.engine import Office
from services.synth.domains.claw.office.serve import Keeper, handler
from services.synth.domains.claw.world import World


def office_of(seed: int = 1) -> dict[str, Any]:
    world = World(random.Random(seed))
    world.noise(6)
    world.event("Review", 1, 10, 1, [world.me, world.staff[0]])
    world.chatter("general", 4)
    world.files["notes/plan.txt"] = "first\n"
    return world.done()


def test_mail_is_searched_answered_forwarded_moved_and_deleted() -> None:
    office = Office(office_of())
    status, found = office.call("GET", "/mail", {"query": "NOTE about", "folder": "inbox"}, None)
    assert (status, found["total"]) == (200, 6)
    name = found["items"][0]["id"]
    status, reply = office.call("POST", f"/mail/{name}/reply", {}, {"text": "Thanks."})
    assert (status, reply["folder"], reply["answers"], reply["subject"][:4]) == (201, "sent", name, "Re: ")
    assert reply["to"] == [found["items"][0]["from"]]
    status, sent = office.call("POST", f"/mail/{name}/forward", {}, {"to": ["a@b.test"], "text": "See below"})
    assert found["items"][0]["text"] in sent["text"]
    assert office.call("PATCH", f"/mail/{name}", {}, {"folder": "archive"})[1]["folder"] == "archive"
    assert office.call("DELETE", f"/mail/{name}", {}, None)[0] == 200
    assert office.call("GET", f"/mail/{name}", {}, None)[0] == 404


def test_lists_have_pages() -> None:
    office = Office(office_of())
    for n in range(45):
        office.call("POST", "/contacts", {}, {"name": f"N{n}", "email": f"n{n}@x.test"})
    pages = [office.call("GET", "/contacts", {"page": str(n), "query": "x.test"}, None)[1] for n in (1, 2, 3, 4)]
    assert [len(page["items"]) for page in pages] == [20, 20, 5, 0]
    assert {page["pages"] for page in pages} == {3}


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("GET", "/mail/m99", None, "list or search"), ("GET", "/nothing", None, "GET / says"),
        ("POST", "/mail", {"to": ["a@b.test"]}, "missing: subject, text"),
        ("POST", "/mail", {"to": "a@b.test"}, "a list of addresses"),
        ("POST", "/mail", {"to": ["bob"], "subject": "x", "text": "y"}, "no address"),
        ("PATCH", "/mail/m1", {"folder": "bin"}, "there are: inbox"),
        ("PATCH", "/mail/m1", {"from": "x"}, "no 'from' to set"),
        ("PATCH", "/events/e1", {"end": "2020-01-01T00:00"}, "ends after it starts"),
        ("POST", "/events", {"title": "x", "start": "soon", "end": "later"}, "times such as"),
        ("POST", "/chat/none", {"text": "x"}, "there are: general"),
        ("DELETE", "/chat/general", None, "what was said stays"),
        ("PUT", "/files/a", {}, "with a text"),
        ("POST", "/mail", [1], "a JSON object"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_and_changes_nothing(method: str, path: str, body: Any, says: str) -> None:
    office = Office(office_of())
    status, answer = office.call(method, path, {}, body)
    assert 400 <= status < 500
    assert says in answer["error"]
    assert office.state == office_of()


SAID = (
    ("POST", "/mail/m{n}/reply", {"text": "Hello"}), ("PATCH", "/mail/m{n}", {"folder": "archive"}),
    ("DELETE", "/mail/m{n}", None),
    ("PATCH", "/contacts/c{n}", {"phone": "555-1"}), ("PATCH", "/events/e{n}", {"title": "Talk"}), ("GET", "/mail/m{n}", None),
    ("POST", "/chat/general", {"text": "Hello"}), ("PUT", "/files/notes/{n}.txt", {"text": "x"}),
    ("DELETE", "/files/notes/{n}.txt", None),
)  # fmt: skip


def request(rng: random.Random) -> tuple[str, str, dict[str, Any] | None]:
    method, path, body = rng.choice(SAID)
    return method, path.format(n=rng.randrange(1, 40)), rng.choice((body, body, {"text": 7}, {}))


def test_the_same_requests_make_the_same_office_and_refused_ones_none() -> None:
    rng, done = random.Random(5), 0
    one, other = Office(office_of()), Office(office_of())
    for _ in range(600):
        method, path, body = request(rng)
        before = json.dumps(one.state)
        status, answer = one.call(method, path, {}, body)
        if method == "GET" or status >= 400:
            assert json.dumps(one.state) == before
        if status < 400:
            assert other.call(method, path, {}, body) == (status, answer)
            done += method != "GET"
    assert one.state == other.state
    assert done > 30


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "seed.json").write_text(json.dumps(office_of()))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(Keeper(tmp_path / "seed.json", tmp_path / "kept")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def ask(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, Any]:
    try:
        with urlopen(Request(url, data=body, method=method)) as answer:
            return answer.status, json.load(answer)
    except HTTPError as e:
        with e:
            return e.code, json.load(e)


def test_the_service_keeps_state_and_journal_and_goes_on_from_them(served: str, tmp_path: Path) -> None:
    assert ask(f"{served}/mail?query=note%20about&page=1")[1]["total"] == 6
    assert ask(f"{served}/mail/m1/reply", "POST", b'{"text": "Thanks."}')[0] == 201
    assert ask(f"{served}/mail/m1/reply", "POST", b'{"text"')[0] == 400
    assert ask(f"{served}/mail/m1/reply", "POST", b'{"text": ""}')[0] == 400
    state = replayed(office_of(), tmp_path / "kept")
    assert state["mail"]["m7"]["text"] == "Thanks."
    again = Keeper(tmp_path / "seed.json", tmp_path / "kept")
    assert again.call("GET", "/mail/m7", {}, None)[1]["text"] == "Thanks."


def test_a_state_that_no_request_made_is_told_from_one_that_was_requested(served: str, tmp_path: Path) -> None:
    ask(f"{served}/mail/m1/reply", "POST", b'{"text": "Thanks."}')
    kept = tmp_path / "kept"
    state, journal = json.loads((kept / "state.json").read_text()), (kept / "journal.jsonl").read_text()
    state["mail"]["m7"]["text"] = "Forged."
    (kept / "state.json").write_text(json.dumps(state))
    with pytest.raises(Tampered, match="another one"):
        replayed(office_of(), kept)
    (kept / "journal.jsonl").write_text(journal.replace("m1", "m99"))
    with pytest.raises(Tampered, match="answered with 404, not 201"):
        replayed(office_of(), kept)
    (kept / "journal.jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        replayed(office_of(), kept)


def test_a_service_that_was_ended_before_it_wrote_the_state_is_believed(served: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    ask(f"{served}/mail/m1/reply", "POST", b'{"text": "One."}')
    one = (kept / "state.json").read_text()
    ask(f"{served}/mail/m2/reply", "POST", b'{"text": "Two."}')
    (kept / "state.json").write_text(one)
    assert sorted(replayed(office_of(), kept)["mail"].keys() - office_of()["mail"].keys()) == ["m7"]
