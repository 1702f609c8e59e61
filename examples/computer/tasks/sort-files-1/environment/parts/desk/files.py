"""A list of files: those that are ticked are moved by the button of a folder."""

from __future__ import annotations

import tkinter
from collections.abc import Callable
from functools import partial

from .window import FACE, Desktop, Spec

PAGE_SIZE = 12


class Files:
    """The window, over the rows of the table `files`: `name`, `size`, `date`, `folder`; of its `folders` the first is open."""

    def __init__(self, desktop: Desktop, spec: Spec) -> None:
        self._desktop, self._folders = desktop, spec["folders"]
        self._folder, self._page = self._folders[0], 0
        self._ticked: dict[str, tkinter.BooleanVar] = {}
        inside = desktop.window(spec)
        self._buttons(inside, "Show folder:", "open", self._open).pack(anchor="w")
        self._where = desktop.label(inside, "files.where")
        self._where.pack(anchor="w", pady=4)
        self._rows = tkinter.Frame(inside, background="white", relief="sunken", borderwidth=1)
        self._rows.pack(fill="both", expand=True)
        pager = tkinter.Frame(inside, background=FACE)
        desktop.button(pager, "files.back", "Previous page", lambda: self._turn(-1)).pack(side="left")
        desktop.button(pager, "files.next", "Next page", lambda: self._turn(1)).pack(side="left")
        pager.pack(anchor="w", pady=4)
        self._buttons(inside, "Move ticked files to:", "move", self._move).pack(anchor="w")
        self._show()

    def _buttons(self, inside: tkinter.Frame, words: str, name: str, command: Callable[[str], None]) -> tkinter.Frame:
        bar = tkinter.Frame(inside, background=FACE)
        tkinter.Label(bar, text=words, background=FACE).pack(side="left")
        for folder in self._folders:
            self._desktop.button(bar, f"{name}.{folder}", folder, partial(command, folder)).pack(side="left")
        return bar

    def _show(self) -> None:
        for child in self._rows.winfo_children():
            child.destroy()
        rows = self._desktop.kept.rows("files", folder=self._folder)
        pages = max(1, -(-len(rows) // PAGE_SIZE))
        self._page = min(self._page, pages - 1)
        self._ticked = {}
        self._where.configure(text=f"{self._folder}: {len(rows)} files, page {self._page + 1} of {pages}")
        for number, row in enumerate(rows[self._page * PAGE_SIZE : (self._page + 1) * PAGE_SIZE]):
            self._ticked[row["id"]] = variable = tkinter.BooleanVar()
            box = self._desktop.switch(self._rows, f"file.{row['id']}", row["name"], variable)
            box.configure(background="white")
            box.grid(row=number, column=0, sticky="w")
            self._desktop.seen.name(f"name.{row['id']}", box, partial(str, row["name"]))
            for column, name in enumerate(("size", "date"), 1):
                label = self._desktop.label(self._rows, f"{name}.{row['id']}", row[name])
                label.configure(background="white")
                label.grid(row=number, column=column, sticky="e", padx=12)

    def _open(self, folder: str) -> None:
        self._folder, self._page = folder, 0
        self._show()

    def _turn(self, by: int) -> None:
        self._page = max(0, self._page + by)
        self._show()

    def _move(self, folder: str) -> None:
        for row_id, ticked in self._ticked.items():
            if ticked.get():
                self._desktop.kept.change("files", row_id, {"folder": folder})
        self._show()


def show(desktop: Desktop, spec: Spec) -> None:
    """Opens the window."""
    Files(desktop, spec)
