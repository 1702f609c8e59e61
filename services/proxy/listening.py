"""The sockets that the proxy listens on."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat

from shared.errors import ConfigError

_BACKLOG = 2048
_ANSWER_S = 1.0


def listen(host: str, port: int, setting: str) -> socket.socket:
    """A TCP socket.

    Raises:
        ConfigError: the address cannot be listened on; the text names `setting`.
    """
    try:
        return socket.create_server((host, port), backlog=_BACKLOG)
    except OSError as e:
        raise ConfigError(f"cannot listen on {host}:{port} ({e.strerror}); set proxy.host and {setting}") from None


def socket_path(template: str) -> str:
    """The path of this machine's proxy: `{host}` is its name, so that several proxies may share a folder."""
    return template.replace("{host}", socket.gethostname())


def listen_unix(path: str) -> socket.socket:
    """A unix socket that every user may connect to who reaches its folder, which is made if need be.

    What a killed proxy left there is replaced.

    Raises:
        ConfigError: it cannot be listened on, or somebody else does.
    """
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        _remove_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen(_BACKLOG)
    except OSError as e:  # a path that is too long has no number
        raise ConfigError(f"cannot listen on the unix socket {path} ({e.strerror or e}); set proxy.socket") from None
    return listener


def remove_unix(path: str) -> None:
    """Removes a socket's file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _remove_stale(path: str) -> None:
    """Removes a socket that nobody listens on.

    Raises:
        OSError: there is something else, or somebody listens.
    """
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise OSError(errno.EEXIST, "there is a file of that name")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_ANSWER_S)
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, "another process listens on it")
    os.unlink(path)
