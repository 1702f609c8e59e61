from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.backends.port import Resources
from services.orchestrator.cgroups import Groups, find_groups, rlimits, said
from services.orchestrator.runner import cgroups

ALL = Resources(cpus=1.5, memory_mb=512, storage_mb=100, pids=64)
V1 = Groups({"memory": "/cg/memory/own", "pids": "/cg/pids", "cpu": "/cg/cpu,cpuacct", "cpuacct": "/cg/cpu,cpuacct"})
V2 = Groups(dict.fromkeys(("memory", "pids", "cpu"), "/cg/own"), unified=True)


def mount(root: str, point: Path | str, kind: str, options: str) -> str:
    return f"30 25 0:26 {root} {point} rw,relatime shared:9 - {kind} cgroup rw,{options}\n"


def test_version_1_has_a_folder_for_each_controller() -> None:
    assert V1.plan("r1", ALL) == [
        {"folder": "/cg/memory/own/openforge-r1", "settings": {"memory.limit_in_bytes": str(512 << 20)}},
        {"folder": "/cg/pids/openforge-r1", "settings": {"pids.max": "64"}},
        {"folder": "/cg/cpu,cpuacct/openforge-r1", "settings": {"cpu.cfs_quota_us": "150000"}},
    ]


def test_version_2_has_one_folder_and_no_swap() -> None:
    (group,) = V2.plan("r1", ALL)
    assert group["folder"] == "/cg/own/openforge-r1"
    assert group["settings"] == {
        "memory.max": str(512 << 20), "memory.swap.max": "0", "pids.max": "64", "cpu.max": "150000 100000"
    }  # fmt: skip


def test_what_is_not_limited_is_counted_all_the_same() -> None:
    assert [group["settings"] for group in V1.plan("r1", Resources())] == [{}, {}, {}]


@given(st.sampled_from([V1, V2, Groups()]), st.integers(1, 100))
def test_what_groups_do_not_limit_single_processes_are_limited_in(groups: Groups, users: int) -> None:
    limits = rlimits(groups, ALL, users)
    assert ("DATA" in limits) == ("memory" not in groups.parents)
    assert limits.get("NPROC", 64 * users) == 64 * users
    assert (limits["CORE"], limits["FSIZE"]) == (0, 100 << 20)


def test_groups_of_version_1_are_made_below_those_of_this_process(tmp_path: Path) -> None:
    for name in ("memory/mine", "pids"):
        (tmp_path / name).mkdir(parents=True)
    mounts = mount("/", tmp_path / "memory", "cgroup", "memory") + mount("/", tmp_path / "pids", "cgroup", "pids")
    found = find_groups("4:memory:/mine\n3:pids:/\n2:cpu,cpuacct:/\n0::/\n", mounts)
    assert found == Groups({"memory": f"{tmp_path}/memory/mine", "pids": f"{tmp_path}/pids"})


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    found = find_groups("4:memory:/docker/abc\n", mount("/docker/abc", tmp_path, "cgroup", "memory"))
    assert found == Groups({"memory": str(tmp_path)})


def test_groups_of_version_2_are_made_where_the_controllers_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below this process's own group, which holds processes, no controller can be had; beside it, they can."""
    (tmp_path / "user" / "own").mkdir(parents=True)
    given = {str(tmp_path / "user" / "own"): "", str(tmp_path / "user"): "cpu memory pids\n"}
    monkeypatch.setattr("services.orchestrator.cgroups._can_make", lambda folder: given[folder])
    found = find_groups("0::/user/own\n", mount("/", tmp_path, "cgroup2", "nsdelegate"))
    assert found == Groups(dict.fromkeys(("cpu", "memory", "pids"), f"{tmp_path}/user"), unified=True)


def test_without_any_nothing_is_found_and_that_is_said(tmp_path: Path) -> None:
    nothing = find_groups("", "")
    assert nothing == Groups()
    assert said(nothing, root=True) == (
        "sandboxes are held within limits of memory (of each single process), processes (of all sandboxes together); not of cpu"
    )
    assert said(V1, root=True).endswith("memory (control group v1), pids (control group v1), cpu (control group v1)")


def test_groups_of_killed_runners_are_swept_away_once_they_are_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = Groups({"pids": str(tmp_path)})
    for name in ("openforge-run1-r1", "openforge-run2-r1/used", "else"):
        (tmp_path / name).mkdir(parents=True)
    groups.sweep()
    assert len(list(tmp_path.iterdir())) == 3
    later = time.time() + 61
    monkeypatch.setattr("services.orchestrator.cgroups.time.time", lambda: later)
    groups.sweep()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["else", "openforge-run2-r1"]


KERNEL_V2 = {
    "cgroup.procs": "", "memory.max": "max", "memory.swap.max": "max", "pids.max": "max", "cpu.max": "max 100000",
    "memory.peak": f"{300 << 20}\n", "memory.events": "low 0\noom 2\noom_kill 1\n",
    "cpu.stat": "usage_usec 1500000\nuser_usec 9\n",
}  # fmt: skip
"""Files of a group of version 2, as a kernel makes them with their group."""


@pytest.mark.parametrize("missing", [[], ["memory.swap.max", "memory.peak"]], ids=["new", "old, without swap"])
def test_a_group_of_version_2_is_set_joined_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: list[str]
) -> None:
    def mkdir(folder: str) -> None:
        os.makedirs(folder)
        for name, text in KERNEL_V2.items():
            if name not in missing:
                Path(folder, name).write_text(text)

    kernel = SimpleNamespace(mkdir=mkdir, open=os.open, write=os.write, close=os.close, O_WRONLY=os.O_WRONLY)
    monkeypatch.setattr(cgroups, "os", kernel)
    groups = Groups(dict.fromkeys(("memory", "pids", "cpu"), str(tmp_path)), unified=True).plan("r1", ALL)
    cgroups.make(groups)
    cgroups.join(groups)
    own = tmp_path / "openforge-r1"
    for name, value in groups[0]["settings"].items():
        assert name in missing or (own / name).read_text().startswith(value)
    assert (own / "cgroup.procs").read_text() == "0"
    assert cgroups.used(groups) == {"cpu_s": 1.5} | ({} if missing else {"memory_mb": 300.0})
    assert cgroups.ran_out_of_memory(groups)


def test_a_limit_that_cannot_be_set_is_no_limit_that_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cgroups.make([{"folder": str(tmp_path / "g"), "settings": {"pids.max": "3"}}])
