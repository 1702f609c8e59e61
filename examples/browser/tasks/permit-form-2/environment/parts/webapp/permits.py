"""An office: files of its residents, a table of fees, and an application of several pages."""

from __future__ import annotations

from collections.abc import Mapping

from . import pages
from .exchange import Answer, Asked, Routes
from .shell import Shell
from .wizard import Wizard

PAGE_SIZE = 6


class Site(Shell):
    """Tables: `residents` (name, facts by name), `applications` (the form's fields); settings: `steps` of the form, `notices`
    (title, lines)."""

    links: Mapping[str, str] = {"Home": "/", "Residents": "/residents", "Notices": "/notices", "New application": "/apply/1"}

    def routes(self) -> Routes:
        form = Wizard(self, "/apply", self.settings["steps"], self._file)
        return {
            "GET /": self._home, "GET /residents": self._list, "GET /resident/*": self._resident,
            "GET /notices": self._notices, **form.routes(),
        }  # fmt: skip

    def _home(self, asked: Asked) -> Answer:
        return self.show(self.name, pages.paragraph(self.settings["about"]))

    def _list(self, asked: Asked) -> Answer:
        word = asked.query.get("q", "").casefold()
        rows = [row for row in self.kept.rows("residents") if word in row["name"].casefold()]
        shown, number, count = pages.cut(rows, asked.query.get("page", ""), PAGE_SIZE)
        form = pages.form("/residents", pages.entry("q", "Part of the name", asked.query.get("q", "")), "Search", method="get")
        lines = [[pages.link(f"/resident/{row['id']}", row["name"]), row["street"]] for row in shown]
        query = {"q": asked.query["q"]} if word else {}
        pager = pages.pager("/residents", query, number, count)
        return self.show("Residents", form, pages.table(("Name", "Street"), lines), pager)

    def _resident(self, asked: Asked, row_id: str) -> Answer:
        row = self.kept.find("residents", row_id)
        if row is None:
            return self.missing()
        return self.show(row["name"], pages.facts([("Street", row["street"]), *row["facts"].items()]))

    def _notices(self, asked: Asked) -> Answer:
        parts = [
            pages.heading(notice["title"]) + "".join(pages.paragraph(line) for line in notice["lines"])
            for notice in self.settings["notices"]
        ]
        return self.show("Notices", *parts)

    def _file(self, asked: Asked, fields: dict[str, str]) -> Answer:
        number = self.kept.add("applications", dict(fields))
        return self.show("Thank you", pages.paragraph(f"The application {number} was filed.", "note"))
