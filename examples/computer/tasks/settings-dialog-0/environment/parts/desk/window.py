"""A desktop that fills the screen, and windows on it. They stand where they are put; no window manager is needed."""

from __future__ import annotations

import tkinter
import tkinter.font
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..kept import Kept
from .seen import Seen

WIDTH, HEIGHT = 1024, 768
GROUND, BAR, FACE = "#3b6e8f", "#1d3a4d", "#ececec"
FONT_SIZE = 11
Spec = dict[str, Any]
"""`program`, `title`, `x`, `y`, `width`, `height`, and what the program needs."""


class Desktop:
    """The screen."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self._root = tkinter.Tk()
        self._root.title("Desktop")
        self._root.geometry(f"{WIDTH}x{HEIGHT}+0+0")
        self._root.configure(background=GROUND)
        for name in ("TkDefaultFont", "TkTextFont", "TkFixedFont"):
            tkinter.font.nametofont(name).configure(size=FONT_SIZE)
        self._root.option_add("*insertOffTime", 0)  # a blinking cursor would never let a screen stand still
        self.seen = Seen(self._root, Path.cwd())

    def window(self, spec: Spec) -> tkinter.Frame:
        """The inside of a new window."""
        frame = tkinter.Frame(self._root, borderwidth=2, relief="raised", background=FACE)
        frame.place(x=spec["x"], y=spec["y"], width=spec["width"], height=spec["height"])
        tkinter.Label(frame, text=spec["title"], background=BAR, foreground="white", anchor="w", padx=8).pack(fill="x")
        inside = tkinter.Frame(frame, background=FACE, padx=10, pady=8)
        inside.pack(fill="both", expand=True)
        return inside

    def run(self) -> None:
        """Shows everything until the program is ended."""
        self.seen.watch()
        self._root.mainloop()

    def label(self, inside: tkinter.Misc, name: str, text: str = "", colour: str = "black") -> tkinter.Label:
        """A text that can change."""
        label = tkinter.Label(inside, text=text, background=FACE, foreground=colour, anchor="w", justify="left")
        self.seen.name(name, label, lambda: str(label.cget("text")))
        return label

    def button(self, inside: tkinter.Misc, name: str, text: str, command: Callable[[], object]) -> tkinter.Button:
        """A button."""
        button = tkinter.Button(inside, text=text, command=command)
        self.seen.name(name, button, lambda: str(button.cget("text")))
        return button

    def entry(self, inside: tkinter.Misc, name: str, width: int = 28) -> tkinter.Entry:
        """A field to type into."""
        entry = tkinter.Entry(inside, width=width, background="white")
        self.seen.name(name, entry, entry.get)
        return entry

    def switch(self, inside: tkinter.Misc, name: str, text: str, variable: tkinter.BooleanVar) -> tkinter.Checkbutton:
        """A box that is ticked or not."""
        box = tkinter.Checkbutton(inside, text=text, variable=variable, background=FACE, anchor="w", highlightthickness=0)
        self.seen.name(name, box, lambda: "on" if variable.get() else "off")
        return box

    def choices(self, inside: tkinter.Misc, name: str, options: Sequence[str], variable: tkinter.StringVar) -> tkinter.Frame:
        """A row of options of which one is chosen."""
        row = tkinter.Frame(inside, background=FACE)
        for option in options:
            button = tkinter.Radiobutton(
                row, text=option, value=option, variable=variable, background=FACE, highlightthickness=0, tristatevalue="-"
            )
            self.seen.name(f"{name}={option}", button, partial(_chosen, variable, option))
            button.pack(side="left")
        return row


def _chosen(variable: tkinter.StringVar, option: str) -> str:
    return "on" if variable.get() == option else "off"
