"""Looks through the pages of the list, ticks what belongs elsewhere, and moves it."""

from __future__ import annotations

import re

from .user import User, known, using


def page(user: User) -> tuple[int, int]:
    """Number of the page that is shown, and of the last."""
    number, last = re.findall(r"page (\d+) of (\d+)", user.text("files.where"))[0]
    return int(number), int(last)


def turn(user: User, button: str) -> None:
    """Turns to another page."""
    where = user.text("files.where")
    user.click(button)
    user.leave("files.where", where)


def fitting(user: User, rule: dict[str, str]) -> list[str]:
    """Files of the page that is shown to which a rule applies."""
    texts = {name: thing["text"] for name, thing in user.screen().items()}
    files = [name.partition(".")[2] for name in texts if name.startswith("file.")]
    return [
        file for file in files
        if texts[f"name.{file}"].endswith("." + rule["end"]) and (not rule["year"] or texts[f"date.{file}"] < rule["year"])
    ]  # fmt: skip


def apply(user: User, rule: dict[str, str]) -> None:
    """Moves the files of all pages to which a rule applies, from the first page on."""
    while page(user)[0] > 1:
        turn(user, "files.back")
    while True:
        if files := fitting(user, rule):
            for file in files:
                user.tick(f"file.{file}")
            turn(user, f"move.{rule['folder']}")
        elif page(user)[0] < page(user)[1]:
            turn(user, "files.next")
        else:
            return


def main() -> None:
    with using() as user:
        for rule in known()["rules"]:
            apply(user, rule)


if __name__ == "__main__":
    main()
