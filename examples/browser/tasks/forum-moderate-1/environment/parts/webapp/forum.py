"""A forum, as its moderators see it: threads, members, house rules, and posts that can be hidden."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from . import pages
from .exchange import Answer, Asked, Routes
from .shell import Shell

PAGE_SIZE = 5


class Site(Shell):
    """Tables: `threads` (title, locked), `posts` (thread, author, text, hidden), `members` (name, joined, standing); settings:
    `user`, `password`, `rules`."""

    members_only = True
    links: Mapping[str, str] = {"Threads": "/", "Members": "/members", "House rules": "/rules"}

    def routes(self) -> Routes:
        return {
            "GET /": self._threads, "GET /rules": self._rules, "GET /members": self._members,
            "GET /thread/*": self._thread, "POST /post/*/hide": self._hide, "POST /post/*/show": self._show,
            "POST /thread/*/lock": self._lock, "POST /thread/*/unlock": self._unlock,
        }  # fmt: skip

    def _threads(self, asked: Asked) -> Answer:
        lines = [
            [pages.link(f"/thread/{row['id']}", row["title"]), str(len(self.kept.rows("posts", thread=row["id"])))]
            for row in self.kept.rows("threads")
        ]
        return self.show("Threads", pages.table(("Thread", "Posts"), lines))

    def _rules(self, asked: Asked) -> Answer:
        return self.show("House rules", pages.bullets(map(escape, self.settings["rules"]), "ol"))

    def _members(self, asked: Asked) -> Answer:
        lines = [(row["name"], row["joined"], row["standing"]) for row in self.kept.rows("members")]
        return self.show("Members", pages.table(("Member", "Joined", "Standing"), lines))

    def _thread(self, asked: Asked, row_id: str) -> Answer:
        thread = self.kept.find("threads", row_id)
        if thread is None:
            return self.missing()
        rows = self.kept.rows("posts", thread=row_id)
        shown, number, count = pages.cut(rows, asked.query.get("page", ""), PAGE_SIZE)
        pager = pages.pager(f"/thread/{row_id}", {}, number, count)
        lock = "unlock" if thread["locked"] else "lock"
        state = pages.paragraph("This thread is locked.") if thread["locked"] else ""
        button = pages.form(f"/thread/{row_id}/{lock}", "", f"{lock.title()} thread")
        return self.show(thread["title"], state, *(self._post(row, number) for row in shown), pager, button)

    def _post(self, row: Mapping[str, Any], page: int) -> str:
        act = "show" if row["hidden"] else "hide"
        text = "(hidden by a moderator) " * bool(row["hidden"]) + row["text"]
        button = pages.form(f"/post/{row['id']}/{act}", pages.hidden("page", str(page)), f"{act.title()} post {row['id']}")
        return f'<div class="post">{pages.paragraph(row["author"] + " wrote:")}{pages.paragraph(text)}{button}</div>'

    def _hide(self, asked: Asked, row_id: str) -> Answer:
        return self._set_hidden(asked, row_id, True)

    def _show(self, asked: Asked, row_id: str) -> Answer:
        return self._set_hidden(asked, row_id, False)

    def _set_hidden(self, asked: Asked, row_id: str, hidden: bool) -> Answer:
        row = self.kept.find("posts", row_id)
        if row is None:
            return self.missing()
        self.kept.change("posts", row_id, {"hidden": hidden})
        page = asked.form.get("page", "")
        return Answer(to=f"/thread/{row['thread']}?page={page if page.isdecimal() else 1}")

    def _lock(self, asked: Asked, row_id: str) -> Answer:
        return self._set_locked(row_id, True)

    def _unlock(self, asked: Asked, row_id: str) -> Answer:
        return self._set_locked(row_id, False)

    def _set_locked(self, row_id: str, locked: bool) -> Answer:
        if self.kept.find("threads", row_id) is None:
            return self.missing()
        self.kept.change("threads", row_id, {"locked": locked})
        return Answer(to=f"/thread/{row_id}")
