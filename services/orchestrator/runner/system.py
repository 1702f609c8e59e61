"""The few system calls that Python 3.11 does not have."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_SFD_NONBLOCK, _SFD_CLOEXEC = 0o4000, 0o2000000
_SIGINFO = struct.Struct("IiiI112x")  # signalfd_siginfo: number, errno, code, pid, and the rest
_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Sets an attribute of this process."""
    _libc.prctl(option, value, 0, 0, 0)


def signal_file(signals: set[signal.Signals]) -> int:
    """Blocks signals and gives a file that tells of them.

    Raises:
        OSError: the kernel refused.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    mask = (ctypes.c_uint64 * 16)(sum(1 << (number - 1) for number in signals))
    fd = int(_libc.signalfd(-1, mask, _SFD_NONBLOCK | _SFD_CLOEXEC))
    if fd < 0:
        raise _error("signalfd")
    return fd


def read_signals(fd: int) -> list[tuple[int, int]]:
    """Signals that came, each with the pid of its sender: 0 when it is not of this pid namespace."""
    try:
        data = os.read(fd, _SIGINFO.size * 16)
    except BlockingIOError:
        return []
    return [(number, pid) for number, _, _, pid in _SIGINFO.iter_unpack(data)]


def own_network() -> None:
    """Puts this process into a network of its own, with nothing but a loopback; for who is not root in a user namespace too.

    Raises:
        OSError: the kernel does not allow that.
    """
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWNET | (_CLONE_NEWUSER if uid else 0)):
        raise _error("no network of its own could be made")
    if uid:
        prctl(PR_SET_DUMPABLE, 1)  # or these files were root's
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def setns(file: int) -> None:
    """Puts this process (its children, if it is a pid namespace) into the namespace that an open file stands for.

    Raises:
        OSError: the kernel does not allow that.
    """
    if _libc.setns(file, 0):
        raise _error("a namespace could not be joined")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
