"""Reads all pages of the note, and fills in the form with what it says of the guest."""

from __future__ import annotations

import re
from datetime import datetime

from .user import User, known, using


def read(user: User) -> list[str]:
    """Lines of all pages of the note."""
    lines = user.text("note").split("\n")
    if "note.page" in user.screen():
        pages = int(user.text("note.page").rpartition(" ")[2])
        for page in range(2, pages + 1):
            user.click("note.next")
            user.until("note.page", f"Page {page} of {pages}")
            lines += user.text("note").split("\n")
    return lines


def booking(lines: list[str], name: str) -> dict[str, str]:
    """The booking of a guest; what comes later holds."""
    at = lines.index(f"Guest: {name}")
    text = "\n".join([*lines[at : at + 4], *(line for line in lines if line.startswith(f"{name}: "))])
    arrival = datetime.strptime(re.findall(r"Arrives on (\d+ \w+ \d+)", text)[-1], "%d %B %Y")
    return {
        "name": name, "phone": re.findall(r"Telephone (.*)", text)[-1], "arrival": arrival.strftime("%Y-%m-%d"),
        "nights": re.findall(r"(\d+) nights", text)[-1], "room": re.findall(r"Room: (\w+)", text)[-1],
        "meals": re.findall(r"meals: ([\w ]+)", text)[-1],
    }  # fmt: skip


def main() -> None:
    with using() as user:
        values = booking(read(user), known()["name"])
        for name in ("name", "phone", "arrival", "nights"):
            user.write(name, values[name])
        for name in ("room", "meals"):
            user.tick(f"{name}={values[name]}")
        user.click("form.save")
        user.until("form.said", "Saved as guests-1.")


if __name__ == "__main__":
    main()
