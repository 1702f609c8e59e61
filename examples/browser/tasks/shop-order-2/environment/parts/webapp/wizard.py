"""A form of several pages: each is looked at when it is sent, and the last shows everything before it is submitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..fields import Field, complaint
from . import pages
from .exchange import Answer, Asked, Routes
from .shell import Shell

Step = dict[str, Any]
"""`title`, and `fields`."""


class Wizard:
    """The form at `base`/1, `base`/2, ... and `base`/review.

    Args:
        shell: site that it belongs to.
        base: its address.
        steps: its pages.
        submit: takes what was entered; returns the page that follows.
    """

    def __init__(
        self, shell: Shell, base: str, steps: Sequence[Step], submit: Callable[[Asked, dict[str, str]], Answer]
    ) -> None:
        self._shell, self._base, self._steps, self._submit = shell, base, steps, submit

    def routes(self) -> Routes:
        """Its pages."""
        base = self._base
        return {
            f"GET {base}/review": self._review, f"POST {base}/review": self._send,
            f"GET {base}/*": self._page, f"POST {base}/*": self._take,
        }  # fmt: skip

    def _draft(self, asked: Asked) -> dict[str, str]:
        draft: dict[str, str] = asked.session.setdefault(self._base, {})
        return draft

    def _page(self, asked: Asked, number: str) -> Answer:
        if not number.isdecimal() or not 1 <= int(number) <= len(self._steps):
            return self._shell.missing()
        open_step = self._first_open(asked)
        if int(number) > open_step:
            return Answer(to=f"{self._base}/{open_step}")
        return self._form(int(number), self._draft(asked), [])

    def _take(self, asked: Asked, number: str) -> Answer:
        if not number.isdecimal() or not 1 <= int(number) <= len(self._steps):
            return self._shell.missing()
        step = self._steps[int(number) - 1]
        given = {field["name"]: asked.form.get(field["name"], "").strip() for field in step["fields"]}
        errors = [error for field in step["fields"] if (error := complaint(field, given[field["name"]]))]
        if errors:
            return self._form(int(number), given, errors)
        self._draft(asked).update(given)
        last = int(number) == len(self._steps)
        return Answer(to=f"{self._base}/review" if last else f"{self._base}/{int(number) + 1}")

    def _form(self, number: int, values: dict[str, str], errors: list[str]) -> Answer:
        step = self._steps[number - 1]
        fields = "\n".join(_input(field, values.get(field["name"], "")) for field in step["fields"])
        complaints = "".join(pages.paragraph(error, "error") for error in errors)
        back = pages.link(f"{self._base}/{number - 1}", "Back") if number > 1 else ""
        title = f"{step['title']} (step {number} of {len(self._steps)})"
        return self._shell.show(title, complaints, pages.form(f"{self._base}/{number}", fields, "Continue"), back)

    def _review(self, asked: Asked) -> Answer:
        open_step = self._first_open(asked)
        if open_step <= len(self._steps):
            return Answer(to=f"{self._base}/{open_step}")
        draft = self._draft(asked)
        rows = [(field["label"], draft.get(field["name"], "")) for step in self._steps for field in step["fields"]]
        links = " ".join(pages.link(f"{self._base}/{n}", f"Change step {n}") for n in range(1, len(self._steps) + 1))
        note = pages.paragraph("Nothing is sent until you press Submit.")
        return self._shell.show("Review", pages.facts(rows), note, pages.form(f"{self._base}/review", "", "Submit"), links)

    def _send(self, asked: Asked) -> Answer:
        open_step = self._first_open(asked)
        if open_step <= len(self._steps):
            return Answer(to=f"{self._base}/{open_step}")
        draft = {field["name"]: self._draft(asked)[field["name"]] for step in self._steps for field in step["fields"]}
        asked.session.pop(self._base)
        return self._submit(asked, draft)

    def _first_open(self, asked: Asked) -> int:
        """The first step whose fields are not all well; one more than there are steps if none."""
        draft = self._draft(asked)
        for number, step in enumerate(self._steps, 1):
            names = [field["name"] for field in step["fields"]]
            if any(name not in draft for name in names) or any(complaint(f, draft[f["name"]]) for f in step["fields"]):
                return number
        return len(self._steps) + 1


def _input(field: Field, value: str) -> str:
    if "options" in field:
        return pages.choice(field["name"], field["label"], field["options"], value, empty="Please choose")
    return pages.entry(field["name"], field["label"], value, field.get("hint", ""))
