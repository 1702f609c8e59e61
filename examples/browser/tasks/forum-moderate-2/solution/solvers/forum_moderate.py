"""Reads the rule and the threads, and hides each post that breaks it, page by page."""

from __future__ import annotations

import re
from collections.abc import Callable

from .visitor import Visitor, known, visiting

SALE = re.compile(r"for sale at|Selling|Buy mine")
PHONE = re.compile(r"\b\d{3} \d{4}\b")


def judge(rule: str, suspended: set[str]) -> Callable[[str, str], bool]:
    """Whether author and text of a post break a rule."""
    if "telephone" in rule:
        return lambda author, text: bool(PHONE.search(text))
    if "sale" in rule:
        return lambda author, text: bool(SALE.search(text))
    return lambda author, text: author in suspended


def clean(visitor: Visitor, breaks: Callable[[str, str], bool]) -> None:
    """Hides posts of the thread that is open."""
    for page in visitor.leaves():
        posts = re.findall(r"(\w+ \w+) wrote: (.*?) Hide post (\d+)", page.text)
        for author, text, number in posts:
            if breaks(author, text):
                visitor.send(f"Hide post {number}")


def main() -> None:
    task = known()
    with visiting() as visitor:
        visitor.send("Sign in", user=task["user"], password=task["password"])
        rules = visitor.follow("House rules").items
        rule = task["rule"] or rules[task["number"]]
        suspended = {row[0] for row in visitor.follow("Members").rows if row[2] == "suspended"}
        threads = [row[0] for row in visitor.follow("Threads").rows[1:]]
        for thread in threads if task["all"] else [task["thread"]]:
            visitor.follow("Threads")
            visitor.follow(thread)
            clean(visitor, judge(rule, suspended))
        if task["all"]:
            visitor.follow("Threads")
            visitor.follow(task["thread"])
            visitor.send("Lock thread")


if __name__ == "__main__":
    main()
