"""The pages in `site`, and a form whose word goes to answer.txt. Serves 127.0.0.1:$PORT."""

import os
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs


class Site(SimpleHTTPRequestHandler):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory="site")

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        Path("answer.txt").write_text(form.get("word", [""])[0] + "\n", encoding="utf-8")
        self.send_response(303)
        self.send_header("Location", "/thanks.html")
        self.end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Site).serve_forever()
