"""What pods are called."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from services.orchestrator.backends.kubernetes.podnames import label_value, labels_of, pod_name

IDS = st.text("abcxyzABCXYZ0189-", min_size=1, max_size=120)


def test_run_and_session_are_read_in_the_name_of_a_pod() -> None:
    assert pod_name("20261129-193000-4f2a", "r12-g3-1-a2") == "openforge-20261129-193000-4f2a.r12-g3-1-a2"


@given(IDS, IDS)
@example("-", "-")
@example("run", "A-")
def test_every_session_has_a_legal_name(run: str, session: str) -> None:
    part = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert re.fullmatch(rf"{part}(\.{part})?", pod_name(run, session))
    assert len(pod_name(run, session)) <= 63


@given(IDS, IDS, IDS, IDS)
@example("r", "a", "r", "A")
@example("r", "x" * 80, "r", "x" * 81)
@example("r-a", "b", "r", "a-b")
def test_no_two_sessions_share_a_name(run: str, one: str, other_run: str, other: str) -> None:
    assert (pod_name(run, one) == pod_name(other_run, other)) == ((run, one) == (other_run, other))


@given(st.text(max_size=200))
def test_every_text_is_a_legal_label(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", label_value(text))


@given(st.text(max_size=100), st.text(max_size=100))
@example("a b", "a-b")
def test_different_texts_are_different_labels(one: str, other: str) -> None:
    assert (label_value(one) == label_value(other)) == (one == other)


def test_labels_have_the_projects_domain() -> None:
    assert labels_of({"run": "r1", "task": "a b"}, "s1")["openforge.dev/run"] == "r1"
    assert labels_of({}, "s1") == {"openforge.dev/session": "s1"}
