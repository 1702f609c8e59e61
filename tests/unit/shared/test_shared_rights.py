"""What each user of the bus and the store may do is what its service does, and no more."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.collector.archiver import DURABLE as ARCHIVE
from services.collector.archiver import KINDS as ARCHIVED
from services.collector.handling import ROLLOUTS
from services.collector.service import _CALLS, _NEWS
from services.dev.evaluation.fold import KINDS as EVALUATED
from services.orchestrator.service import DURABLE as ORCHESTRATORS
from shared.bus.nkey import new_seed, nkey_of
from shared.bus.refusals import refusal_in
from shared.bus.rights import RIGHTS, permissions_of, server_users
from shared.errors import ConfigError
from shared.events import MESSAGES, CallRecorded, GroupCompleted, RolloutStart, SessionSealed
from shared.keys import CLI, COLLECTOR, OPERATOR, ORCHESTRATOR, PROXY, SYNTH, TAP, TRAINER, USERS
from shared.store import rights as store_rights
from shared.subjects import matches, pattern_of, subject_of

REPO = Path(__file__).parents[3]
MAKERS = {PROXY: "proxy", ORCHESTRATOR: "orchestrator", COLLECTOR: "collector", TRAINER: "trainer", SYNTH: "synth", CLI: "dev"}
DURABLES = {"orchestrator": ORCHESTRATORS, "collector": ARCHIVE}
NAMES = {kind.__name__: kind for kind in MESSAGES}


def calls(folder: Path) -> Iterator[ast.Call]:
    for file in folder.rglob("*.py"):
        yield from (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))


@pytest.mark.parametrize("user", MAKERS)
def test_a_service_publishes_the_messages_that_its_code_makes(user: str) -> None:
    made = [(call.func, *call.args[:1]) for call in calls(REPO / "services" / MAKERS[user]) if isinstance(call.func, ast.Name)]
    # `kind(...)`, or `_message(kind, ...)` as the orchestrator writes it
    names = {
        part.id for parts in made for part in parts[: 1 + (ast.unparse(parts[0]) == "_message")] if isinstance(part, ast.Name)
    }
    assert {NAMES[name] for name in names & NAMES.keys()} == set(RIGHTS[user].publishes)


def test_a_service_takes_messages_under_the_names_that_its_code_has() -> None:
    for user, folder in MAKERS.items():
        named = {ast.unparse(call.args[0]) for call in calls(REPO / "services" / folder) if _consumes(call)}
        durables = {DURABLES[folder] if name == "DURABLE" else ast.literal_eval(name) for name in named}
        assert durables == set(RIGHTS[user].consumes) - {"own-trainer", "my-trainer"}, user


def _consumes(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "consume" and "bus" in ast.unparse(call.func)


@pytest.mark.parametrize("user", MAKERS)
def test_a_service_reads_back_what_its_code_names(user: str) -> None:
    named = {
        NAMES[call.args[0].id] for call in calls(REPO / "services" / MAKERS[user])
        if isinstance(call.func, ast.Attribute) and call.func.attr == "replay" and isinstance(call.args[0], ast.Name)
        and call.args[0].id in NAMES
    }  # fmt: skip
    assert named <= set(RIGHTS[user].reads)


def test_a_service_takes_the_types_that_its_code_has() -> None:
    assert RIGHTS[COLLECTOR].consumes == {
        "collector-calls": _CALLS, "collector-rollouts": ROLLOUTS, "collector-others": _NEWS, ARCHIVE: ARCHIVED,
    }  # fmt: skip
    assert RIGHTS[CLI].consumes["evaluation"] == EVALUATED


def allowed(user: str, subject: str, run_id: str = "*") -> bool:
    return any(matches(pattern, subject) for pattern in permissions_of(user, run_id).publish)


def test_nobody_but_the_collector_publishes_groups_or_but_the_proxy_calls() -> None:
    makers = {kind: [u for u in USERS if allowed(u, pattern_of(kind, "r", "k"))] for kind in (GroupCompleted, CallRecorded)}
    assert makers == {GroupCompleted: [COLLECTOR, OPERATOR], CallRecorded: [PROXY, OPERATOR]}


def test_keys_of_one_run_are_of_no_use_in_another() -> None:
    own, other = (subject_of(RolloutStart(**start("r1" if own else "r2"))) for own in (True, False))
    assert allowed(TRAINER, own, "r1")
    assert not allowed(TRAINER, other, "r1")
    assert not allowed(TRAINER, "$JS.API.CONSUMER.MSG.NEXT.FORGE-GROUPS.trainer-groups-r2", "r1")
    assert not allowed(TRAINER, "$JS.API.CONSUMER.MSG.NEXT.FORGE-COMMANDS.orchestrator-r1", "r1")


def start(run_id: str) -> dict[str, Any]:
    return {"run_id": run_id, "rollout_id": "a", "group_id": "g", "group_size": 1, "task_dir": "t", "harness": "h"}


@pytest.mark.parametrize("user", USERS)
def test_nobody_but_the_operator_hears_the_inbox_of_another(user: str) -> None:
    heard = permissions_of(user).subscribe
    others = [other for other in USERS if any(matches(p, f"_INBOX.{other}.x.1") for p in heard)]
    assert others == (list(USERS) if user == OPERATOR else [user])


def test_no_service_deletes_a_stream_or_the_consumer_of_another() -> None:
    for user in set(USERS) - {OPERATOR}:
        for what in ("STREAM.DELETE.FORGE-CALLS", "CONSUMER.DELETE.FORGE-CALLS.archive", "STREAM.MSG.DELETE.FORGE-DEAD"):
            assert not allowed(user, f"$JS.API.{what}")


def test_the_tap_publishes_nothing_at_all() -> None:
    users = json.loads(server_users({user: user for user in USERS}).removeprefix("authorization "))["users"]
    [tap] = [user["permissions"] for user in users if user["nkey"] == TAP]
    assert tap["publish"] == {"deny": [">"]}
    assert "allow_responses" not in tap


def test_every_family_of_keys_is_somebodys() -> None:
    written = {
        name for file in (REPO / "shared" / "store").glob("*.py")
        for name in re.findall(r"(?:self\._key|\bkey|Keys\(run_id\))\(\"([a-z]+)\"", file.read_text())
    }  # fmt: skip
    assert written == {f for rights in store_rights.STORE_RIGHTS.values() for f in rights.writes}


def test_what_the_store_is_told_holds_no_password() -> None:
    told = store_rights.server_users(dict.fromkeys(store_rights.STORE_RIGHTS, "pass" * 16), "r1")
    assert "pass" not in told
    assert "user default reset off" in told
    assert "~of:{r1}:sess ~of:{r1}:sess:*" in told
    assert "%R~of:{r1}:blob:*" in told


def test_a_seed_gives_the_same_key_and_is_not_shown() -> None:
    seed = new_seed()
    key = nkey_of(seed, "file")
    assert key == nkey_of(seed, "file")
    assert key.public.startswith("U")
    assert seed not in repr(key)
    for wrong in ("", "x", seed[:-4], seed[2:], "SA" + seed[2:]):
        with pytest.raises(ConfigError, match="file holds no seed"):
            nkey_of(wrong, "file")


def test_a_refusal_is_told_from_other_complaints() -> None:
    refusal = refusal_in('nats: Permissions Violation for Subscription to "forge.v1.>" using queue "strays"')
    assert refusal is not None
    assert (refusal.verb, refusal.subject) == ("subscription", "forge.v1.>")
    assert refusal_in("Authorization Violation") is None
    assert SessionSealed in RIGHTS[PROXY].publishes
