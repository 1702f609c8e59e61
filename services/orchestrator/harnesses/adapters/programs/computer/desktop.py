"""A screen without hardware: Xvfb with the task's program on it, touched through xdotool."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from .screen import Frame, parse_xwd

LOOK_S = 0.1
"""Between two looks at the screen."""
REACT_S = 0.2
"""What a program is given to begin to answer an action."""
SETTLE_S = 2.0
"""How long a screen may go on changing before it is taken as it is."""
SHOW_S = 20.0
"""How long a program may take to show something."""


class DesktopError(Exception):
    """There is no screen, or nothing on it; the text says why."""


class Desktop:
    """A screen of `width` x `height` pixels for as long as the context lasts, and on it what the shell command `start` shows.

    Raises:
        DesktopError: the server did not start, or the command failed or showed nothing.
    """

    def __init__(self, width: int, height: int, start: str) -> None:
        self.width, self.height = width, height
        self._start = start
        # Abstract sockets are shared by all sandboxes that share a network, and with the machine: the server makes none, and
        # its number is one that no other server has, since clients try the abstract socket of that number first.
        self._display = f":{1000 + secrets.randbelow(50_000)}"
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        self._env["DISPLAY"] = self._display
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Desktop:
        self._folder = tempfile.TemporaryDirectory()
        try:
            self._serve()
            self._show()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in reversed(self._running):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        self._folder.cleanup()

    def look(self) -> Frame:
        """The screen as it is now, mouse pointer included."""
        return parse_xwd(Path(self._folder.name, "Xvfb_screen0").read_bytes())

    def settled(self) -> Frame:
        """The screen once it stands still, or after `SETTLE_S`."""
        time.sleep(REACT_S)
        until = time.monotonic() + SETTLE_S
        frame = self.look()
        while time.monotonic() < until:
            time.sleep(LOOK_S)
            before, frame = frame, self.look()
            if frame == before:
                break
        return frame

    def touch(self, xdotool: tuple[str, ...]) -> str:
        """Runs xdotool with these arguments; returns what it complained about."""
        done = subprocess.run(["xdotool", *xdotool], env=self._env, capture_output=True, check=False)
        return (done.stdout + done.stderr).decode(errors="replace").strip()

    def _serve(self) -> None:
        """Starts the server; returns when it serves."""
        read, write = os.pipe()
        with open(read, "rb") as ready:
            screen = ("-screen", "0", f"{self.width}x{self.height}x24", "-fbdir", self._folder.name)
            private = ("-nolisten", "tcp", "-nolisten", "local")
            self._spawn(["Xvfb", self._display, *screen, *private, "-displayfd", str(write)], pass_fds=(write,))
            os.close(write)
            if not ready.readline():
                raise DesktopError("Xvfb did not start")

    def _show(self) -> None:
        """Starts the task's program and waits until the screen shows something."""
        program = self._spawn(["/bin/sh", "-c", self._start])
        until = time.monotonic() + SHOW_S
        while self.look().blank:
            if program.poll():
                raise DesktopError(f"{self._start!r} ended with status {program.returncode} before it showed anything")
            if time.monotonic() > until:
                raise DesktopError(f"{self._start!r} showed nothing for {SHOW_S:g} s")
            time.sleep(LOOK_S)

    def _spawn(self, argv: list[str], pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, env=self._env, pass_fds=pass_fds, stdin=subprocess.DEVNULL, start_new_session=True)
        self._running.append(process)
        return process
