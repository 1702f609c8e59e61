"""Runs a command in the namespaces of another process: `enter.main PID PROGRAM ARGUMENT...`, for a process of its own.

A namespace can be joined only from the user namespace that owns it. Sandboxes of somebody who is not root have several of
those, one within the other (the runner's, with the network; bubblewrap's, with the rest; and one more, without rights, that the
agent runs in), which nsenter, knowing one, cannot pass.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections import defaultdict

from services.orchestrator.runner.system import setns

_OWNER, _PARENT = 0xB701, 0xB702
"""ioctl requests NS_GET_USERNS and NS_GET_PARENT: each gives another file."""
_KINDS = ("net", "uts", "ipc", "mnt", "pid")


def main() -> None:
    """Joins, and has a child run the command: only children are in a pid namespace that was joined."""
    for file in joined(int(sys.argv[2])):
        setns(file)
    child = os.fork()
    if not child:
        os.execv(sys.argv[3], sys.argv[3:])
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(code if code >= 0 else 128 - code)


def joined(pid: int) -> list[int]:
    """Files of the namespaces of a process that are not this one's, in the order in which they can be joined.

    Raises:
        OSError: the process is gone, or somebody else's.
    """
    owned: defaultdict[int, list[int]] = defaultdict(list)
    for kind in _KINDS:
        file = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
        if _number(file) != os.stat(f"/proc/self/ns/{kind}").st_ino:
            owned[_number(fcntl.ioctl(file, _OWNER))].append(file)
    user, own, order = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY), os.stat("/proc/self/ns/user").st_ino, list[int]()
    while _number(user) != own:  # from the inside to the outside
        order = [user, *owned[_number(user)], *order]
        user = fcntl.ioctl(user, _PARENT)
    return [*owned[own], *order]


def _number(file: int) -> int:
    return os.fstat(file).st_ino
