"""An editor of several texts; they are kept when Save or ctrl+s is pressed."""

from __future__ import annotations

import tkinter

from .window import FACE, Desktop, Spec


class Editor:
    """The window, over the rows of the table `documents`: `name`, `text`."""

    def __init__(self, desktop: Desktop, spec: Spec) -> None:
        self._kept = desktop.kept
        inside = desktop.window(spec)
        bar = tkinter.Frame(inside, background=FACE)
        bar.pack(fill="x")
        self._texts: dict[str, tkinter.Text] = {}
        self._buttons: dict[str, tkinter.Button] = {}
        for row in self._kept.rows("documents"):
            self._document(desktop, inside, bar, row["id"], row["name"], row["text"])
        desktop.button(bar, "editor.save", "Save", self._save).pack(side="right")
        self._said = desktop.label(inside, "editor.said")
        self._said.pack(side="bottom", anchor="w")
        self._open(next(iter(self._texts)))

    def _document(
        self, desktop: Desktop, inside: tkinter.Frame, bar: tkinter.Frame, row_id: str, name: str, content: str
    ) -> None:
        text = tkinter.Text(inside, background="white", wrap="none", undo=True, width=10, height=4, padx=4, pady=4)
        text.insert("1.0", content)
        text.edit_reset()
        text.bind("<Control-s>", lambda event: self._save())
        desktop.seen.name(f"text.{row_id}", text, lambda: text.get("1.0", "end-1c"))
        desktop.seen.name(f"cursor.{row_id}", text, lambda: text.index("insert"))
        self._buttons[row_id] = desktop.button(bar, f"open.{row_id}", name, lambda: self._open(row_id))
        self._buttons[row_id].pack(side="left")
        self._texts[row_id] = text

    def _open(self, row_id: str) -> None:
        for other, text in self._texts.items():
            text.pack_forget()
            self._buttons[other].configure(relief="sunken" if other == row_id else "raised")
        self._shown = row_id
        self._texts[row_id].pack(fill="both", expand=True, pady=(8, 0))
        self._texts[row_id].update_idletasks()  # keys that were pressed meanwhile find it there
        self._texts[row_id].focus_set()
        self._said.configure(text=f"{self._kept.rows('documents', id=row_id)[0]['name']} is open.")

    def _save(self) -> str:
        (row,) = self._kept.rows("documents", id=self._shown)
        self._kept.change("documents", self._shown, {"text": self._texts[self._shown].get("1.0", "end-1c")})
        self._said.configure(text=f"{row['name']} was saved.")
        return "break"


def show(desktop: Desktop, spec: Spec) -> None:
    """Opens the window."""
    Editor(desktop, spec)
