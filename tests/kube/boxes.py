"""Sandboxes to ask a cluster for, and pods as an API server tells of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, cast

import msgspec

from services.orchestrator.backends.kubernetes.podnames import SESSION
from services.orchestrator.backends.kubernetes.pods import Pod
from services.orchestrator.backends.port import Box
from services.orchestrator.spec import Spec

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
DONE = '{"pid": 1, "phase": "done", "error": null, "phases": {}}'
"""Last words of a runner to which nothing happened."""
_PHASE: dict[str, Any] = {
    "exit_code": 0,
    "timed_out": False,
    "limit": None,
    "oom": False,
    "seconds": 0.1,
    "used": {},
    "too_large": [],
}
REWARDED = msgspec.json.encode({
    **msgspec.json.decode(DONE),
    "phases": {"agent": {**_PHASE, "collected": {}}, "verify": {**_PHASE, "collected": {"reward.txt": "1\n"}}},
}).decode()  # fmt: skip
"""Last words of a runner whose agent was given a reward."""
SESSION_ID = "g1-0-a1"


def box(name: str = SESSION_ID, run: str = "run1", workdir: str = "/app", **fields: Any) -> Box:
    """A sandbox of a run."""
    labels = {"run": run, "rollout": name, "group": "g1", "task": "find-the-word", "harness": "react"}
    spec = cast(
        Spec, {"phases": [{"name": "agent", "cwd": workdir, "fresh": []}], "lease_s": 600.0}
    )  # a backend reads nothing else of it
    return Box(**{"name": name, "labels": labels, "harness": "react", "spec": spec, "folder": Path("/nowhere"), **fields})


def container(name: str = "agent", image: str = "img", **state: Any) -> dict[str, Any]:
    """The status of a container: `waiting`, `running` or `terminated`."""
    return {"name": name, "image": image, "state": {key: value or {} for key, value in state.items()}}


def ended(code: int, reason: str = "Completed", message: str = "") -> dict[str, Any]:
    """The state of a container that ended."""
    return {"exitCode": code, "reason": reason, "message": message}


def told(
    phase: str = "Pending", *, main: dict[str, Any] | None = None, inits: tuple[dict[str, Any], ...] = (),
    node: str = "node1", reason: str = "", message: str = "", deleted: dt.datetime | None = None,
    conditions: tuple[dict[str, Any], ...] = (), session: str = SESSION_ID, uid: str = "u1", memory: str = "64Mi",
    made: dt.datetime | None = None,
) -> Pod:  # fmt: skip
    """A pod as the API server tells of it; `memory` is the agent's limit, if it has one."""
    about: dict[str, Any] = {
        "metadata": {"name": "openforge-x", "uid": uid, "resourceVersion": "7", "annotations": {SESSION: session}},
        "spec": {
            "nodeName": node, "activeDeadlineSeconds": 60,
            "initContainers": [{"name": c["name"], "image": c["image"]} for c in inits],
            "containers": [{"name": "agent", "image": "img", "resources": {"limits": {"memory": memory} if memory else {}}}],
        },
        "status": {
            "phase": phase, "reason": reason, "message": message, "conditions": list(conditions),
            "initContainerStatuses": list(inits), "containerStatuses": [main] if main else [],
        },
    }  # fmt: skip
    if made:
        about["metadata"]["creationTimestamp"] = made.isoformat()
    if deleted:
        about["metadata"]["deletionTimestamp"] = deleted.isoformat()
    return msgspec.json.decode(msgspec.json.encode(about), type=Pod)
