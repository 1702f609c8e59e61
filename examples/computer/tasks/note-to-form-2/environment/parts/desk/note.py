"""A note of one page or several, to be read."""

from __future__ import annotations

import tkinter

from .window import FACE, Desktop, Spec


def show(desktop: Desktop, spec: Spec) -> None:
    """Opens the window; `pages` are lists of lines."""
    pages: list[list[str]] = spec["pages"]
    inside = desktop.window(spec)
    text = desktop.label(inside, "note")
    text.configure(wraplength=spec["width"] - 40)
    bar = tkinter.Frame(inside, background=FACE)
    where = desktop.label(bar, "note.page")
    at = 0

    def turn(by: int) -> None:
        nonlocal at
        at = min(max(at + by, 0), len(pages) - 1)
        text.configure(text="\n".join(pages[at]))
        where.configure(text=f"Page {at + 1} of {len(pages)}")

    turn(0)
    text.pack(anchor="nw")
    if len(pages) > 1:
        desktop.button(bar, "note.back", "Back", lambda: turn(-1)).pack(side="left")
        desktop.button(bar, "note.next", "Next", lambda: turn(1)).pack(side="left")
        where.pack(side="left", padx=10)
        bar.pack(side="bottom", anchor="w")
