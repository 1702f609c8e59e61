"""Goes through a site's pages as a visitor without a browser: reads, follows links, fills in forms."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, build_opener

START = ("/usr/bin/python3", "-B", "-m", "parts.webapp")
SERVE_S = 30.0
"""How long the site may take to come up."""
_IN_LINE = ("a", "small", "option", "b", "i")


def known() -> dict[str, Any]:
    """What the instruction says, by name."""
    content: dict[str, Any] = json.loads(Path(__file__).parents[1].joinpath("known.json").read_text(encoding="utf-8"))
    return content


@contextmanager
def visiting() -> Iterator[Visitor]:
    """The site of the current folder, on a port of its own, and somebody who visits it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    server = subprocess.Popen(START, env={**os.environ, "PORT": str(port)})
    try:
        _wait(server, port)
        yield Visitor(over_http(f"http://127.0.0.1:{port}/"))
    finally:
        server.terminate()
        server.wait()


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + SERVE_S
    while server.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError("the site does not serve")


class Form:
    """A form: where it goes, its fields with their values, and the words on its button."""

    def __init__(self, to: str, method: str) -> None:
        self.to, self.method = to, method
        self.fields: dict[str, str] = {}
        self.button = ""


class Page(HTMLParser):
    """What a page shows.

    Attributes:
        text: all words.
        links: addresses by their words; of several like ones the first.
        forms: in order.
        rows: cells of all tables.
        row_links: the first link of each of those, or none.
        items: of lists.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.links: dict[str, str] = {}
        self.forms: list[Form] = []
        self.rows: list[list[str]] = []
        self.row_links: list[str] = []
        self.items: list[str] = []
        self._open: set[str] = set()
        self._link, self._select = "", ""
        self.feed(html)
        self.text = re.sub(r"[ \n]+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.add(tag)
        if tag not in _IN_LINE:
            self.text += " "
        given = {name: value or "" for name, value in attrs}
        if tag == "tr":
            self.rows.append([])
            self.row_links.append("")
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "li":
            self.items.append("")
        elif tag == "a":
            self._link = given["href"]
            if "td" in self._open and not self.row_links[-1]:
                self.row_links[-1] = self._link
        else:
            self._of_form(tag, given)

    def _of_form(self, tag: str, given: dict[str, str]) -> None:
        if tag == "form":
            self.forms.append(Form(given["action"], given["method"]))
        elif tag == "input":
            self.forms[-1].fields[given["name"]] = given["value"]
        elif tag == "select":
            self._select = given["name"]
            self.forms[-1].fields[self._select] = ""
        elif tag == "option" and "selected" in given:
            self._open.add("selected")

    def handle_endtag(self, tag: str) -> None:
        self._open -= {tag, "selected"}

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data
        if "a" in self._open:
            self.links.setdefault(data, self._link)
        if self._open & {"td", "th"}:
            self.rows[-1][-1] += data
        if "li" in self._open:
            self.items[-1] += data
        if "selected" in self._open:
            self.forms[-1].fields[self._select] = data
        if "button" in self._open:
            self.forms[-1].button = data

    def fact(self, name: str) -> str:
        """The cell beside a name."""
        return next(row[1] for row in self.rows if row[0] == name)


Fetch = Callable[[str, bytes | None], str]
"""HTML of an address of the site; with bytes, what it answers to a form."""


def over_http(home: str) -> Fetch:
    """Fetches pages of a site, and keeps its cookies."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))

    def fetch(to: str, form: bytes | None) -> str:
        with browser.open(urljoin(home, to), form, timeout=SERVE_S) as answer:
            text: str = answer.read().decode()
        return text

    return fetch


class Visitor:
    """Somebody who has a page open."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self.go("/")

    def go(self, to: str, form: bytes | None = None) -> Page:
        """Opens an address of the site."""
        self.page = Page(self._fetch(to, form))
        return self.page

    def follow(self, words: str) -> Page:
        """Follows the link of these words."""
        return self.go(self.page.links[words])

    def send(self, button: str, **fields: str) -> Page:
        """Fills in fields of the form with that button, and presses it."""
        form = next(form for form in self.page.forms if form.button == button)
        if unknown := fields.keys() - form.fields.keys():
            raise KeyError(f"no field {unknown} in the form {button!r}")
        filled = urlencode({**form.fields, **fields})
        return self.go(f"{form.to}?{filled}") if form.method == "get" else self.go(form.to, filled.encode())

    def leaves(self) -> Iterator[Page]:
        """The page that is open, and those that `Next page` leads to."""
        yield self.page
        while "Next page" in self.page.links:
            yield self.follow("Next page")
