"""How a runner tells its status."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from services.orchestrator.spec import Status

STATUS_BYTES = 4096
"""What Kubernetes keeps of a container's last words."""
STATUS_LINE = "OPENFORGE-STATUS "
"""Begins the last line of a runner's output in a container; the status follows."""
_ERROR_CHARS = 500


def replace_status(path: str, status: Status) -> None:
    """Replaces the status file as a whole."""
    with open(path + ".new", "wb") as file:
        file.write(encode(status))
    os.replace(path + ".new", path)


def encode(status: Status) -> bytes:
    """The status as JSON of at most `STATUS_BYTES`: a long error is cut in its middle; if that is not enough, collected texts
    are named as too large."""
    error = status["error"]
    if error and len(error) > _ERROR_CHARS:
        status["error"] = f"{error[: _ERROR_CHARS // 2]} ... {error[-_ERROR_CHARS // 2 :]}"
    while len(data := json.dumps(status).encode()) > STATUS_BYTES:
        phase = next((p for p in status["phases"].values() if p["collected"]), None)
        if phase is None:
            status["error"] = "the status was too long to be told"
            status["phases"] = {}
        else:
            phase["too_large"] += phase["collected"]
            phase["collected"] = {}
    return data
