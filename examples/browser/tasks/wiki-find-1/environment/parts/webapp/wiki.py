"""A small encyclopaedia, and a desk that takes one answer to a question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from ..kept import Row
from . import pages
from .exchange import Answer, Asked, Routes
from .shell import Shell

PAGE_SIZE = 12
_LINK = re.compile(r"\[\[([^|\]]+)\|([^\]]+)\]\]")


class Site(Shell):
    """Tables: `articles` (title, kind, text: paragraphs with links as [[id|words]]), `answers` (answer)."""

    links: Mapping[str, str] = {"Home": "/", "All articles": "/articles", "Answer desk": "/desk"}

    def routes(self) -> Routes:
        return {
            "GET /": self._home, "GET /articles": self._index, "GET /search": self._search,
            "GET /article/*": self._article, "GET /desk": self._desk, "POST /desk": self._answer,
        }  # fmt: skip

    def _home(self, asked: Asked) -> Answer:
        kinds = sorted({row["kind"] for row in self.kept.rows("articles")})
        links = pages.bullets(pages.link("/articles?kind=" + kind, kind.title()) for kind in kinds)
        return self.show(self.name, pages.paragraph(self.settings["about"]), self._search_form(""), links)

    def _index(self, asked: Asked) -> Answer:
        kind = asked.query.get("kind", "")
        rows = [row for row in self.kept.rows("articles") if kind in ("", row["kind"])]
        rows.sort(key=lambda row: row["title"])
        return self._list("Articles", rows, "/articles", {"kind": kind} if kind else {}, asked)

    def _search(self, asked: Asked) -> Answer:
        words = asked.query.get("q", "").casefold().split()
        if not words:
            return self.show("Search", pages.paragraph("Please enter a word.", "error"), self._search_form(""))
        rows = [row for row in self.kept.rows("articles") if all(word in row["title"].casefold() for word in words)]
        return self._list("Search", rows, "/search", {"q": asked.query["q"]}, asked)

    def _list(self, title: str, rows: list[Row], path: str, query: dict[str, str], asked: Asked) -> Answer:
        shown, number, count = pages.cut(rows, asked.query.get("page", ""), PAGE_SIZE)
        found = pages.paragraph(f"{len(rows)} articles.")
        items = pages.bullets(pages.link(f"/article/{row['id']}", row["title"]) for row in shown)
        form = self._search_form(query.get("q", ""))
        return self.show(title, form, found, items, pages.pager(path, query, number, count))

    def _search_form(self, words: str) -> str:
        return pages.form("/search", pages.entry("q", "Word in a title", words), "Search", method="get")

    def _article(self, asked: Asked, row_id: str) -> Answer:
        row = self.kept.find("articles", row_id)
        if row is None:
            return self.missing()
        return self.show(row["title"], *(f"<p>{linked(text)}</p>" for text in row["text"]))

    def _desk(self, asked: Asked, error: str = "") -> Answer:
        note = pages.paragraph("One answer for each question. It cannot be taken back.")
        body = pages.form("/desk", pages.entry("answer", "Your answer"), "Send answer")
        return self.show("Answer desk", pages.paragraph(error, "error") if error else "", note, body)

    def _answer(self, asked: Asked) -> Answer:
        text = asked.form.get("answer", "").strip()
        if not text:
            return self._desk(asked, "Please enter an answer.")
        self.kept.add("answers", {"answer": text})
        return self.show("Thank you", pages.paragraph(f"Your answer was received: {text}", "note"))


def linked(text: str) -> str:
    """HTML of a paragraph."""
    parts, at = [], 0
    for match in _LINK.finditer(text):
        parts += [escape(text[at : match.start()]), pages.link(f"/article/{match[1]}", match[2])]
        at = match.end()
    return "".join([*parts, escape(text[at:])])
