"""What every site has: a name, navigation, pages for what is not there, and people who sign in."""

from __future__ import annotations

from collections.abc import Mapping

from ..kept import Kept
from . import pages
from .exchange import Answer, Asked, Routes, answer


class Shell:
    """Base of the sites; one sets `links` and `routes`.

    Attributes:
        links: of the navigation: address by text.
        members_only: nothing is shown to who has not signed in; settings have `user` and `password` then.
    """

    links: Mapping[str, str] = {}
    members_only = False

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.settings = kept.settings
        self.name: str = kept.settings["name"]

    def routes(self) -> Routes:
        """Handlers of the site's own pages."""
        raise NotImplementedError

    def answer(self, asked: Asked) -> Answer:
        """The answer to a request."""
        if self.members_only and not asked.session.get("user"):
            return self._sign_in(asked)
        return answer(self.routes(), asked, self.missing)

    def show(self, title: str, *body_html: str, status: int = 200) -> Answer:
        """A page."""
        return Answer(pages.page(title, "\n".join(body_html), self.links, self.name), status)

    def missing(self) -> Answer:
        """The page for what is not there."""
        return self.show("Not found", pages.paragraph("There is no such page.", "error"), status=404)

    def _sign_in(self, asked: Asked) -> Answer:
        form = asked.form
        error = ""
        if asked.method == "POST" and asked.path == "/sign-in":
            if (form.get("user"), form.get("password")) == (self.settings["user"], self.settings["password"]):
                asked.session["user"] = form["user"]
                return Answer(to="/")
            error = pages.paragraph("User name or password is wrong.", "error")
        fields = pages.entry("user", "User name") + pages.entry("password", "Password", kind="password")
        body = pages.form("/sign-in", fields, "Sign in")
        return Answer(pages.page("Sign in", error + body, {}, self.name))
