"""A form that adds a row to a table when it is saved."""

from __future__ import annotations

import tkinter
from collections.abc import Callable

from ..fields import Field, complaint
from .window import FACE, Desktop, Spec


def show(desktop: Desktop, spec: Spec) -> None:
    """Opens the window; `fields`, `table`, and `button`, the words on it."""
    inside = desktop.window(spec)
    values = [_field(desktop, inside, field, row) for row, field in enumerate(spec["fields"])]
    below = len(values)
    said = desktop.label(inside, "form.said")
    said.configure(wraplength=spec["width"] - 60)

    def save() -> None:
        given = {field["name"]: get().strip() for field, (get, _) in zip(spec["fields"], values, strict=True)}
        errors = [error for field in spec["fields"] if (error := complaint(field, given[field["name"]]))]
        if errors:
            said.configure(text=errors[0], foreground="#a00000")
            return
        row = desktop.kept.add(spec["table"], given)
        for _, clear in values:
            clear()
        said.configure(text=f"Saved as {row}.", foreground="#006000")

    desktop.button(inside, "form.save", spec["button"], save).grid(row=below, column=1, sticky="e", pady=8)
    said.grid(row=below + 1, column=0, columnspan=2, sticky="w")


def _field(desktop: Desktop, inside: tkinter.Frame, field: Field, row: int) -> tuple[Callable[[], str], Callable[[], None]]:
    """Shows a field; returns how to read and how to clear it."""
    label = tkinter.Label(inside, text=field["label"] + ":", background=FACE, anchor="w")
    label.grid(row=row, column=0, sticky="w", pady=4, padx=(0, 10))
    if "options" in field:
        chosen = tkinter.StringVar()
        desktop.choices(inside, field["name"], field["options"], chosen).grid(row=row, column=1, sticky="w")
        return chosen.get, lambda: chosen.set("")
    entry = desktop.entry(inside, field["name"])
    entry.grid(row=row, column=1, sticky="w")
    return entry.get, lambda: entry.delete(0, "end")
