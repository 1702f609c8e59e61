"""Works on a desktop of its own with mouse and keyboard, and sees what is on it by screen.json."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

START = ("/usr/bin/python3", "-B", "-m", "parts.desk")
SCREEN = "1024x768x24"
WAIT_S = 30.0
"""How long something may take to show."""
LOOK_S = 0.02
TYPE_MS = "12"
"""Between two keys."""


def known() -> dict[str, Any]:
    """What the instruction says, by name."""
    content: dict[str, Any] = json.loads(Path(__file__).parents[1].joinpath("known.json").read_text(encoding="utf-8"))
    return content


@contextmanager
def using() -> Iterator[User]:
    """The desktop of the current folder, and somebody who uses it."""
    # Without an abstract socket, which other sandboxes on this network could reach; that leaves nothing by which servers
    # that share a folder for sockets would see that a number is taken, so it is one that goes by the process.
    display = f":{1000 + os.getpid() % 50_000}"
    with ExitStack() as ends, tempfile.TemporaryFile("w+") as ready:
        argv = ["Xvfb", display, "-screen", "0", SCREEN, "-nolisten", "tcp", "-nolisten", "local", "-displayfd"]
        _start(ends, [*argv, str(ready.fileno())], {}, pass_fds=(ready.fileno(),))
        wait_for(lambda: os.fstat(ready.fileno()).st_size)
        _start(ends, START, {"DISPLAY": display})
        yield User(Path("screen.json"), display)


def _start(ends: ExitStack, argv: Sequence[str], env: dict[str, str], pass_fds: tuple[int, ...] = ()) -> None:
    process = subprocess.Popen(argv, env={**os.environ, **env}, pass_fds=pass_fds, stderr=subprocess.DEVNULL)
    ends.callback(process.wait)
    ends.callback(process.terminate)


def wait_for(look: Callable[[], Any]) -> Any:
    """What `look` returns once that is something.

    Raises:
        TimeoutError: it is nothing for too long.
    """
    until = time.monotonic() + WAIT_S
    while not (found := look()):
        if time.monotonic() > until:
            raise TimeoutError("what was waited for does not show")
        time.sleep(LOOK_S)
    return found


class User:
    """Somebody with mouse and keyboard, who goes on when the screen has answered."""

    def __init__(self, screen: Path, display: str) -> None:
        self._screen = screen
        self._env = {**os.environ, "DISPLAY": display}

    def screen(self) -> dict[str, Any]:
        """What can be seen now: `box` and `text` by name."""
        content: dict[str, Any] = json.loads(self._screen.read_text(encoding="utf-8")) if self._screen.exists() else {}
        return content

    def see(self, name: str) -> dict[str, Any]:
        """What has that name, once it can be seen."""
        seen: dict[str, Any] = wait_for(lambda: self.screen().get(name))
        return seen

    def text(self, name: str) -> str:
        """What stands there, once it can be seen."""
        return str(self.see(name)["text"])

    def until(self, name: str, text: str) -> None:
        """Waits until exactly that stands there."""
        wait_for(lambda: self.screen().get(name, {}).get("text") == text)

    def leave(self, name: str, text: str) -> None:
        """Waits until something else stands there."""
        wait_for(lambda: self.screen().get(name, {}).get("text") != text)

    def click(self, name: str) -> None:
        """Clicks on the middle of what has that name, once it can be seen."""
        self.click_all([name])

    def click_all(self, names: Sequence[str]) -> None:
        """Clicks on one after the other; what stands where must not change by it."""
        words: list[str] = []
        for name in names:
            x, y, width, height = self.see(name)["box"]
            words += ["mousemove", str(x + width // 2), str(y + height // 2), "click", "1"]
        self.do(*words)

    def tick(self, name: str) -> None:
        """Clicks on a box, or an option, so that it is chosen; nothing if it is."""
        if self.text(name) != "on":
            self.click(name)
            self.until(name, "on")

    def write(self, name: str, text: str) -> None:
        """Types into an empty field."""
        self.click(name)
        self.type(text)
        self.until(name, text)

    def type(self, text: str) -> None:
        """Types to where the cursor is."""
        self.do("type", "--delay", TYPE_MS, text)

    def press(self, *keys: str) -> None:
        """Presses keys, by their X names."""
        self.do("key", "--delay", TYPE_MS, *keys)

    def do(self, *xdotool: str) -> None:
        """Runs xdotool."""
        subprocess.run(["xdotool", *xdotool], env=self._env, check=True)
