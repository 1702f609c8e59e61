"""Settings on several tabs; they hold when Apply is pressed."""

from __future__ import annotations

import tkinter
from typing import Any

from .window import FACE, Desktop, Spec

Variable = tkinter.BooleanVar | tkinter.StringVar | tkinter.IntVar


class Settings:
    """The window; `tabs` have `title` and `ids`, of rows of the table `settings`: `label`, `kind` (switch, choice, number) and
    `value`, and of a choice its `options`, of a number `low`, `high` and `step`."""

    def __init__(self, desktop: Desktop, spec: Spec) -> None:
        self._desktop = desktop
        inside = desktop.window(spec)
        bar = tkinter.Frame(inside, background=FACE)
        bar.pack(anchor="w")
        desktop.seen.name("settings.tab", bar, lambda: self._shown)
        self._tabs: dict[str, tkinter.Frame] = {}
        self._buttons: dict[str, tkinter.Button] = {}
        self._variables: dict[str, Variable] = {}
        for tab in spec["tabs"]:
            self._tab(inside, bar, tab)
        below = tkinter.Frame(inside, background=FACE)
        below.pack(side="bottom", fill="x")
        self._said = desktop.label(below, "settings.said")
        self._said.pack(side="left")
        desktop.button(below, "settings.apply", "Apply", self._apply).pack(side="right")
        desktop.button(below, "settings.reset", "Reset", self._reset).pack(side="right")
        self._open(spec["tabs"][0]["title"])

    def _tab(self, inside: tkinter.Frame, bar: tkinter.Frame, tab: dict[str, Any]) -> None:
        title, page = tab["title"], tkinter.Frame(inside, background=FACE)
        self._tabs[title] = page
        self._buttons[title] = self._desktop.button(bar, f"tab.{title}", title, lambda: self._open(title))
        self._buttons[title].pack(side="left")
        for number, setting in enumerate(tab["ids"]):
            row = self._desktop.kept.find("settings", setting)
            assert row, f"no setting {setting}"
            self._setting(page, row, number)

    def _setting(self, page: tkinter.Frame, row: dict[str, Any], number: int) -> None:
        if row["kind"] == "switch":
            on = tkinter.BooleanVar(value=row["value"])
            box = self._desktop.switch(page, row["id"], row["label"], on)
            box.grid(row=number, column=0, columnspan=2, sticky="w", pady=4)
            self._desktop.seen.name(f"{row['id']}.label", box, lambda: row["label"])
            self._variables[row["id"]] = on
            return
        label = tkinter.Label(page, text=row["label"] + ":", background=FACE)
        label.grid(row=number, column=0, sticky="w", pady=4)
        self._desktop.seen.name(f"{row['id']}.label", label, lambda: row["label"])
        widget = self._choice(page, row) if row["kind"] == "choice" else self._number(page, row)
        widget.grid(row=number, column=1, sticky="w", padx=10)

    def _choice(self, page: tkinter.Frame, row: dict[str, Any]) -> tkinter.Frame:
        self._variables[row["id"]] = chosen = tkinter.StringVar(value=row["value"])
        return self._desktop.choices(page, row["id"], row["options"], chosen)

    def _number(self, page: tkinter.Frame, row: dict[str, Any]) -> tkinter.Frame:
        """A number with a button for less and one for more."""
        variable = tkinter.IntVar(value=row["value"])
        self._variables[row["id"]] = variable
        frame, name = tkinter.Frame(page, background=FACE), row["id"]
        shown = self._desktop.label(frame, name, str(variable.get()))
        variable.trace_add("write", lambda *_: shown.configure(text=str(variable.get())))

        def add(steps: int) -> None:
            variable.set(min(max(variable.get() + steps * row["step"], row["low"]), row["high"]))

        self._desktop.button(frame, f"{name}.less", "-", lambda: add(-1)).pack(side="left")
        shown.pack(side="left", padx=8)
        self._desktop.button(frame, f"{name}.more", "+", lambda: add(1)).pack(side="left")
        return frame

    def _open(self, title: str) -> None:
        for other, page in self._tabs.items():
            page.pack_forget()
            self._buttons[other].configure(relief="sunken" if other == title else "raised")
        self._shown = title
        self._tabs[title].pack(anchor="nw", pady=12)
        self._tabs[title].update_idletasks()  # keys that were pressed meanwhile find it there

    def _apply(self) -> None:
        for name, variable in self._variables.items():
            self._desktop.kept.change("settings", name, {"value": variable.get()})
        self._said.configure(text="Applied.")

    def _reset(self) -> None:
        for row in self._desktop.kept.rows("settings"):
            if row["id"] in self._variables:
                self._variables[row["id"]].set(row["value"])
        self._said.configure(text="As they were last applied.")


def show(desktop: Desktop, spec: Spec) -> None:
    """Opens the window."""
    Settings(desktop, spec)
