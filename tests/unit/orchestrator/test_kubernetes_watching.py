"""What a watch tells, by what it is told."""

from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.backends.kubernetes.podnames import SESSION
from services.orchestrator.backends.kubernetes.pods import Pod
from services.orchestrator.backends.kubernetes.uids import Uids
from services.orchestrator.backends.kubernetes.watching import Pods
from shared.errors import Evicted, Unschedulable
from tests.kube.boxes import DONE, NOW, container, ended, told

RUNS = container(running={})
IS_DONE = container(terminated=ended(0, message=DONE))


def stages(pods: Pods, kind: str, pod: Pod) -> list[str]:
    return [news.stage for news in pods.happened(kind, pod, NOW)]


def test_each_stage_is_told_once() -> None:
    pods = Pods(100.0)
    assert stages(pods, "ADDED", told(node="")) == ["schedule"]
    assert stages(pods, "MODIFIED", told(node="")) == []
    assert stages(pods, "MODIFIED", told("Running", main=RUNS)) == ["run"]
    assert stages(pods, "MODIFIED", told("Succeeded", main=IS_DONE)) == ["ended"]
    assert stages(pods, "DELETED", told("Succeeded", main=IS_DONE)) == []


def test_what_ended_between_two_lists_is_told() -> None:
    pods = Pods(100.0)
    assert [n.stage for n in pods.listed([told("Running", main=RUNS)], "1", NOW)] == ["run"]
    [gone] = pods.listed([], "2", NOW)
    assert isinstance(gone.error, Evicted)
    assert list(pods.listed([], "3", NOW)) == []


def test_a_deletion_tells_the_last_words() -> None:
    pods = Pods(100.0)
    assert stages(pods, "ADDED", told("Running", main=RUNS)) == ["run"]
    [gone] = pods.happened("DELETED", told("Running", main=IS_DONE, deleted=NOW), NOW)
    assert gone.status


def test_time_alone_ends_a_pod_that_no_node_is_found_for() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": NOW.isoformat()}
    pods = Pods(100.0)
    assert stages(pods, "ADDED", told(node="", conditions=(condition,))) == ["schedule"]
    assert list(pods.late(NOW + dt.timedelta(seconds=99))) == []
    [late] = pods.late(NOW + dt.timedelta(seconds=101))
    assert isinstance(late.error, Unschedulable)
    assert list(pods.late(NOW + dt.timedelta(seconds=102))) == []


def test_time_alone_ends_a_pod_whose_node_does_not_answer() -> None:
    pods = Pods(100.0)
    assert stages(pods, "ADDED", told("Running", main=RUNS, deleted=NOW)) == ["run"]
    [late] = pods.late(NOW + dt.timedelta(seconds=16))
    assert isinstance(late.error, Evicted)


def test_pods_of_others_are_nobodys_business() -> None:
    assert stages(Pods(1.0), "ADDED", told(session="")) == []
    assert stages(Pods(1.0), "DELETED", told(session="")) == []


def test_ids_of_pods_are_known_for_as_long_as_the_pods_are_there() -> None:
    uids = Uids()
    uids.listed([told(uid="u1", session="s1"), told(uid="u2", session="s2"), told(uid="u3", session="")])
    assert (uids.of("s1"), uids.of("s2"), len(uids)) == ("u1", "u2", 2)
    uids.happened("MODIFIED", told(uid="u1", session="s1", deleted=NOW))
    uids.happened("DELETED", told(uid="u1", session="s1", deleted=NOW))
    assert (uids.of("s1"), len(uids)) == ("", 1)
    uids.listed([])
    assert len(uids) == 0


def test_the_end_of_an_earlier_pod_does_not_make_its_successor_unknown() -> None:
    uids = Uids()
    uids.happened("ADDED", told(uid="new"))
    uids.happened("DELETED", told(uid="old"))
    assert uids.of(told().metadata.annotations[SESSION]) == "new"


def test_a_bookmark_brings_a_version() -> None:
    pods = Pods(1.0)
    assert stages(pods, "BOOKMARK", told()) == []
    assert pods.version == "7"


LIVES = st.lists(st.sampled_from(["list with", "list without", "run", "end", "delete", "again"]), max_size=12)


@given(LIVES)
def test_every_sandbox_that_was_seen_and_is_gone_was_told_as_ended_exactly_once(steps: list[str]) -> None:
    pods, heard, life = Pods(100.0), [], 1
    now, there = {"run": told("Running", main=RUNS, uid="u1"), "end": told("Succeeded", main=IS_DONE, uid="u1")}, False
    for step in steps:
        if step in now:
            heard += [(life, n.stage) for n in pods.happened("MODIFIED", now[step], NOW)]
            there = True
        elif step == "list with":
            heard += [(life, n.stage) for n in pods.listed([now["run"]], "1", NOW)]
            there = True
        elif step in ("list without", "delete") and there:
            gone = pods.listed([], "2", NOW) if step == "list without" else pods.happened("DELETED", now["run"], NOW)
            heard += [(life, n.stage) for n in gone]
            assert heard.count((life, "ended")) == 1
            there, life = False, life + 1
    assert all(heard.count(each) == 1 for each in heard if each[1] == "ended")
