"""Secrets and metadata of sessions."""

from __future__ import annotations

import json
import re

import pytest

from services.proxy.sessions import read_meta, secret_of
from shared.errors import ConfigError


def test_a_secret_depends_on_key_run_and_session_and_on_nothing_else() -> None:
    secrets = {secret_of(key, run, session) for key in "ab" for run in ("r1", "r2") for session in ("s1", "s2")}
    assert len(secrets) == 8
    assert secret_of("a", "r1", "s1") in secrets
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", s) for s in secrets)


@pytest.mark.parametrize(
    "changes",
    [{"rollout_id": "a_b"}, {"group_id": ""}, {"attempt": 0}, {"purpose": "play"}, {"sampling": {"top_k": 1}}, {"x": 1},
     {"sampling": {"temperature": -1}}, {"sampling": {"top_p": 0}}, {"sampling": {"max_tokens": 0}}],
)  # fmt: skip
def test_metadata_that_is_not_acceptable_is_refused(changes: dict[str, object]) -> None:
    meta = {"rollout_id": "r", "attempt": 1, "group_id": "g", "purpose": "train"}
    assert read_meta(json.dumps(meta).encode()).rollout_id == "r"
    with pytest.raises(ConfigError):
        read_meta(json.dumps(meta | changes).encode())
