"""Change settings of a program, on several tabs."""

from __future__ import annotations

from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.computer.drawing import window
from services.synth.domains.folder import Drawn

ROW = dict[str, Any]
TABS: dict[str, list[ROW]] = {
    "Sound": [
        {"id": "mute", "label": "Mute all sounds", "kind": "switch"},
        {"id": "volume", "label": "Volume", "kind": "number", "low": 0, "high": 100, "step": 10},
        {"id": "alert-volume", "label": "Volume of alerts", "kind": "number", "low": 0, "high": 100, "step": 10},
        {"id": "chime", "label": "Chime", "kind": "choice", "options": ["Bell", "Drum", "Harp"]},
    ],
    "Display": [
        {"id": "dark", "label": "Dark colours", "kind": "switch"},
        {"id": "font-size", "label": "Size of letters", "kind": "number", "low": 8, "high": 32, "step": 2},
        {"id": "menu-size", "label": "Size of menus", "kind": "number", "low": 8, "high": 32, "step": 2},
        {"id": "clock", "label": "Clock", "kind": "choice", "options": ["12 hours", "24 hours", "None"]},
    ],
    "Mail": [
        {"id": "mail-check", "label": "Look for mail every so many minutes", "kind": "number", "low": 5, "high": 60, "step": 5},
        {"id": "mail-sound", "label": "Play a sound for new mail", "kind": "switch"},
        {"id": "mail-images", "label": "Show pictures in mail", "kind": "switch"},
        {"id": "mail-order", "label": "Order of mail", "kind": "choice", "options": ["Newest first", "Oldest first"]},
    ],
}


def draw(rng: Random, level: int) -> Drawn:
    """Level 1 changes two settings, 2 four, 3 three that a note says of one person among several."""
    rows = {row["id"]: {**row, "value": _value(rng, row)} for tab in TABS.values() for row in tab}
    wishes = _wishes(rng, rows, {1: 2, 2: 4, 3: 3}[level])
    name, *others = content.people(rng, 3)
    windows = [window("settings", "Settings", (20, 20, 600, 330), tabs=[_tab(title) for title in TABS])]
    if level == 3:
        pages = [(name, wishes), *((other, _wishes(rng, rows, 3)) for other in others)]
        rng.shuffle(pages)
        lines = [line for who, wish in pages for line in (f"{who}:", *_lines(rows, wish), "")]
        windows.append(window("note", "Wishes", (20, 370, 600, 380), pages=[lines]))
    asked = f"as {name} wishes, by the note on the screen" if level == 3 else "so: " + "; ".join(_lines(rows, wishes))
    return Drawn(
        instruction=f"""
Change the settings on the screen {asked}. Leave all others as they are. Settings hold when Apply was pressed.""",
        settings={"windows": windows}, tables={"settings": list(rows.values())},
        changes=[{"table": "settings", "id": row_id, "set": {"value": value}} for row_id, value in wishes.items()],
        known={"wishes": {} if level == 3 else _by_label(rows, wishes), "name": name}, max_turns=25 + 10 * level,
    )  # fmt: skip


def _tab(title: str) -> ROW:
    return {"title": title, "ids": [row["id"] for row in TABS[title]]}


def _value(rng: Random, row: ROW) -> bool | str | int:
    if row["kind"] == "switch":
        return rng.random() < 0.5
    if row["kind"] == "choice":
        return str(rng.choice(row["options"]))
    return rng.randrange(row["low"], row["high"] + 1, row["step"])


def _wishes(rng: Random, rows: dict[str, ROW], count: int) -> dict[str, Any]:
    """Other values of so many settings; a number is at most six steps away."""
    return {row_id: _other(rng, rows[row_id]) for row_id in sorted(rng.sample(sorted(rows), count))}


def _other(rng: Random, row: ROW) -> bool | str | int:
    now = row["value"]
    while True:
        value = _value(rng, row)
        if value != now and (row["kind"] != "number" or abs(int(value) - now) <= 6 * row["step"]):
            return value


def _by_label(rows: dict[str, ROW], wishes: dict[str, Any]) -> dict[str, str]:
    return {
        rows[row_id]["label"]: {True: "on", False: "off"}[v] if isinstance(v, bool) else str(v) for row_id, v in wishes.items()
    }


def _lines(rows: dict[str, ROW], wishes: dict[str, Any]) -> list[str]:
    return [f"{label} - {value}" for label, value in _by_label(rows, wishes).items()]
