"""A container's first process: fetches what it has to do from the proxy, carries it out, and leaves its status.

Its environment:

    OPENFORGE_PROXY    the proxy's routes for harnesses: `tcp:host:port` or `unix:/path`
    OPENFORGE_TICKET   opens what the orchestrator left there for this sandbox; nobody else in the container gets to know it
    OPENFORGE_LEASE    seconds for which the proxy may be away while something is fetched; 0 or missing: ten minutes
    OPENFORGE_STATUS   file for the status (Kubernetes: the container's termination message); may be missing

The status is also the last line that it prints. It exits with 0 whenever it has told a status; with any other exit code it was
killed, and what stands in the status then was not written by it.
"""

from __future__ import annotations

import glob
import json
import os
import signal
import sys

from services.orchestrator.runner.fetch import PATIENCE_S, Source
from services.orchestrator.runner.files import TaskFault, empty
from services.orchestrator.runner.leave import leave
from services.orchestrator.runner.phases import Runner
from services.orchestrator.runner.report import STATUS_LINE, encode
from services.orchestrator.runner.system import PR_SET_DUMPABLE, prctl

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from collections.abc import Mapping

    from services.orchestrator.spec import Spec, Status

PROXY_VAR, TICKET_VAR, STATUS_VAR = "OPENFORGE_PROXY", "OPENFORGE_TICKET", "OPENFORGE_STATUS"
LEASE_VAR = "OPENFORGE_LEASE"
SPEC = "spec"
"""Name that the spec is left under."""
MANIFEST = "/openforge/manifest.json"
PROXY = "proxy"  # as in spec.py
TOOLS = "/openforge/"
_OF_CONTAINERS, _OF_OTHERS = ("HOME", "HOSTNAME", "PWD"), ("OPENFORGE_", "KUBERNETES_")
"""Variables that are no image's."""
_FINAL = ("done", "cancelled", "failed")
_MUSL, _GLIBC = "/lib/ld-musl-*.so.1", ("/lib*/ld-linux-*.so.*", "/lib/*-linux-gnu/ld-linux-*.so.*", "/lib*/ld64.so.*")


class Ended(Exception):
    """SIGTERM came before there was anything to end."""


def main() -> None:
    """Never returns."""
    prctl(PR_SET_DUMPABLE, 0)  # before anything of the task runs: its environment holds the ticket
    source = Source(os.environ[PROXY_VAR], os.environ[TICKET_VAR], float(os.environ.get(LEASE_VAR, 0)) or PATIENCE_S)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status: Status = {"pid": os.getpid(), "phase": "cancelled", "error": None, "phases": {}}
    try:
        spec = prepared(json.loads(source.get(SPEC)), os.environ)
        if why := unfit():
            raise TaskFault(why)
    except Ended:
        tell(status)
    except (OSError, ValueError) as e:
        status["phase"], status["error"], status["of_task"] = "failed", f"prepare: {e}", isinstance(e, TaskFault)
        tell(status)
    else:
        Runner(spec, tell, source.unpack, lambda path: leave(source, path)).run()
    os._exit(0)


def prepared(spec: Spec, environ: Mapping[str, str]) -> Spec:
    """The spec with the proxy's address in it, and with what the task's image sets in its environment."""
    for phase in spec["phases"]:
        if phase["relay"] == PROXY:
            phase["relay"] = environ[PROXY_VAR]
        phase["env"] = with_image(phase["env"], environ)
        if "service" in phase:
            phase["service"]["env"] = with_image(phase["service"]["env"], environ)
    return spec


def with_image(env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """A phase's environment, and what the image sets besides. On the PATH come the harness's programs, then the image's."""
    own = {name: text for name, text in environ.items() if name not in _OF_CONTAINERS and not name.startswith(_OF_OTHERS)}
    usual = env.get("PATH", "").split(":")
    brought = [folder for folder in usual if folder.startswith(TOOLS)]
    path = dict.fromkeys([*brought, *own.get("PATH", "").split(":"), *usual])
    return {**own, **env, "PATH": ":".join(folder for folder in path if folder)}


def unfit(root: str = "", manifest: str = MANIFEST) -> str:
    """Why the harness cannot run in this image; empty if nothing speaks against it."""
    try:
        with open(manifest, encoding="utf-8") as file:
            harness = json.load(file)
    except FileNotFoundError:
        return ""
    if not harness.get("needs_glibc") or any(glob.glob(root + pattern) for pattern in _GLIBC):
        return ""
    found = "musl, as in Alpine" if glob.glob(root + _MUSL) else "none"
    return f"the harness {harness.get('name')} needs an image with glibc; this one has {found}: start from a Debian-like one"


def tell(status: Status) -> None:
    """Leaves a final status where it outlives the container."""
    if status["phase"] not in _FINAL:
        return
    data = encode(status)
    if path := os.environ.get(STATUS_VAR):
        if os.path.islink(path) or (os.path.lexists(path) and not os.path.isfile(path)):
            empty(path)  # left by an agent: to have something else written, or to have this wait for a reader
            os.rmdir(path)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644), "wb") as file:
            file.write(data)
    sys.stdout.flush()
    os.write(1, b"\n" + STATUS_LINE.encode() + data + b"\n")


def _end(*_: object) -> None:
    raise Ended
