"""Serves a site on 127.0.0.1:$PORT from data.json in the current folder; what becomes of it goes to state.json."""

from __future__ import annotations

import os
import sys
import threading
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ..kept import Kept
from .exchange import Answer, Asked

MAX_BODY = 65_536


class Site:
    """Answers requests one at a time; the same requests in the same order have the same answers."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._answer = import_module(f"{__package__}.{kept.settings['kind']}").Site(kept).answer
        self._sessions: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def answer(self, method: str, target: str, body: str, cookie: str) -> tuple[Answer, str]:
        """The answer, and the name of a session that begins with it."""
        (path, _, query), begun = target.partition("?"), ""
        with self._lock:
            session = self._sessions.get(cookie)
            if session is None:
                begun, session = f"s{len(self._sessions) + 1}", {}
            asked = Asked(method, path, dict(parse_qsl(query)), dict(parse_qsl(body)), session)
            answer: Answer = self._answer(asked)
            if begun and answer.status == 200:
                self._sessions[begun] = session
            self._kept.note({"request": f"{method} {target}", "status": 303 if answer.to else answer.status})
        return answer, begun if answer.status == 200 else ""


class Exchange(BaseHTTPRequestHandler):
    """HTTP around the site."""

    site: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._do("")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.send_error(411 if not length.isdecimal() else 413)
            return
        self._do(self.rfile.read(int(length)).decode(errors="replace"))

    def _do(self, body: str) -> None:
        answer, begun = self.site.answer(self.command, self.path, body, self._session())
        content = answer.body.encode()
        self.send_response(303 if answer.to else answer.status)
        if answer.to:
            self.send_header("Location", answer.to)
        if begun:
            self.send_header("Set-Cookie", f"session={begun}; Path=/")
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _session(self) -> str:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return ""
        return cookie["session"].value if "session" in cookie else ""

    def log_message(self, format: str, *args: object) -> None:
        """What was asked stands in the journal."""


def main() -> None:
    Exchange.site = Site(Kept(Path.cwd()))
    try:
        ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Exchange).serve_forever()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
