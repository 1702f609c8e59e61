"""What is on the screen, as a file for programs that cannot look at it, like the trees that screen readers use."""

from __future__ import annotations

import tkinter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..kept import write_whole

SCREEN = "screen.json"
LOOK_MS = 40


class Seen:
    """Keeps screen.json: of each named widget that can be seen, its `box` (x, y, width, height in pixels) and `text`."""

    def __init__(self, root: tkinter.Tk, folder: Path) -> None:
        self._root, self._file = root, folder / SCREEN
        self._named: dict[str, tuple[tkinter.Misc, Callable[[], str]]] = {}
        self._last: dict[str, Any] = {}

    def name(self, name: str, widget: tkinter.Misc, text: Callable[[], str]) -> None:
        """Names a widget; `text` says what it shows."""
        self._named[name] = (widget, text)

    def watch(self) -> None:
        """Writes the file when the screen has changed, and looks again in a moment."""
        self._root.update_idletasks()  # what was packed anew is not there before: the file would tell half of a change
        now = {}
        for name, (widget, text) in list(self._named.items()):
            if not widget.winfo_exists():
                del self._named[name]
            elif widget.winfo_viewable():
                box = [widget.winfo_rootx(), widget.winfo_rooty(), widget.winfo_width(), widget.winfo_height()]
                now[name] = {"box": box, "text": text()}
        if now != self._last:
            write_whole(self._file, now)
            self._last = now
        self._root.after(LOOK_MS, self.watch)
