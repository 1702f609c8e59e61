"""Counts in the log."""

from __future__ import annotations

import pytest

from shared.tally import Tally


def test_counts_are_told_when_they_have_changed_and_only_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    tally = Tally("messages")
    tally.tell()
    tally.counts["late"] += 1
    tally.counts["dead"] += 2
    tally.tell()
    tally.tell()
    tally.counts["late"] += 1
    tally.tell()
    assert caplog.messages == ["messages: dead 2, late 1", "messages: dead 2, late 2"]
