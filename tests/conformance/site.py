"""For a program that can do nothing but browse: a site that runs the command in the address, or the one that is typed into its
form, which leads to no new page. Standard library only."""

from __future__ import annotations

import html
import http.server
import os
import subprocess
from urllib.parse import unquote

FORM = """<form onsubmit="fetch('/run?' + encodeURIComponent(elements[0].value)); reset(); return false">
<input aria-label="command" autofocus></form>"""


class Site(http.server.BaseHTTPRequestHandler):
    """``/run?COMMAND`` runs a command in the current folder and shows what it prints; all else is the front page."""

    def do_GET(self) -> None:
        _, asked, query = self.path.partition("/run?")
        shown = "Nothing yet."
        if asked:
            done = subprocess.run(["/bin/sh", "-c", unquote(query)], capture_output=True, text=True, check=False)
            shown = f"Exit code {done.returncode}. {done.stdout}{done.stderr}"
        page = f"<title>Commands</title><h1>Commands</h1>{FORM}<pre>{html.escape(shown)}</pre>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Site).serve_forever()
