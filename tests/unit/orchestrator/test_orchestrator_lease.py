"""A runner looks for its proxy now and then, without waiting for it, and tells when it was away for too long."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from services.orchestrator.runner.lease import Lease

LONG_S = 100.0


def over_within(lease: Lease, seconds: float) -> bool:
    """Whether a lease is over at some look of the next so many seconds, which pass at once."""
    until, over = lease.look_at + seconds, False
    while lease.look_at < until:
        over |= lease.over(lease.look_at)
    return over


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_lease_goes_on_while_somebody_listens_and_is_over_when_nobody_has_for_too_long(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s"
    family, address = (socket.AF_UNIX, str(path)) if kind == "unix" else (socket.AF_INET, ("127.0.0.1", 0))
    with socket.socket(family) as server:
        server.bind(address)
        server.listen()
        lease = Lease(f"unix:{path}" if kind == "unix" else f"tcp:127.0.0.1:{server.getsockname()[1]}", LONG_S)
        assert not over_within(lease, 3 * LONG_S)
    assert not over_within(lease, 0.8 * LONG_S)
    assert over_within(lease, 0.4 * LONG_S)
    lease.close()


def test_a_proxy_that_comes_back_in_time_has_the_whole_time_again(tmp_path: Path) -> None:
    lease = Lease(f"unix:{tmp_path / 's'}", LONG_S)
    assert not over_within(lease, 0.8 * LONG_S)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        assert not over_within(lease, 0.2 * LONG_S)
    assert not over_within(lease, 0.8 * LONG_S)
    assert over_within(lease, 0.4 * LONG_S)


def test_a_lease_is_not_over_between_looks_nor_where_there_is_none() -> None:
    lease = Lease("unix:/no/such/socket", LONG_S)
    assert not lease.over(time.monotonic())
    assert not Lease("unix:/no/such/socket", 0.0).over(time.monotonic() + 1e9)
    assert not Lease("", LONG_S).over(time.monotonic() + 1e9)
