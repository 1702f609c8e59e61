"""Serves an office on 127.0.0.1:$PORT: JSON over HTTP. What it has is written to $LOGS_DIR/artifacts/office before it answers:
`state.json`, always whole, and `journal.jsonl`, every request with its status. It goes on from there when started again."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from engine import Office

LARGEST = 1_000_000


class Keeper:
    """An office, and where it is kept.

    Args:
        seed: file of the office as it was in the beginning.
        folder: for state and journal.
    """

    def __init__(self, seed: Path, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._state, self._journal = folder / "state.json", folder / "journal.jsonl"
        self._lock = threading.Lock()
        source = self._state if self._state.is_file() else seed
        self._office = Office(json.loads(source.read_text(encoding="utf-8")))

    def call(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Carries a request out and keeps what became of it."""
        with self._lock:
            status, answer = self._office.call(method, path, query, body)
            said = json.dumps({"method": method, "path": path, "query": query, "body": body, "status": status})
            with self._journal.open("a", encoding="utf-8") as file:
                file.write(said + "\n")
            if method != "GET" and status < 400:
                part = self._state.with_suffix(".part")
                part.write_text(json.dumps(self._office.state, indent=1), encoding="utf-8")
                part.replace(self._state)
            return status, json.loads(json.dumps(answer))


def handler(keeper: Keeper) -> type[BaseHTTPRequestHandler]:
    """What answers the requests."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            url = urlsplit(self.path)
            try:
                size = int(self.headers.get("Content-Length") or 0)
                if not 0 <= size <= LARGEST:
                    raise ValueError(f"the body may have {LARGEST} bytes")
                body = json.loads(self.rfile.read(size)) if size else None
            except ValueError as e:
                status, answer = 400, {"error": f"the body must be JSON: {e}"}
            else:
                status, answer = keeper.call(self.command, unquote(url.path), dict(parse_qsl(url.query)), body)
            data = json.dumps(answer, indent=1).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """The journal says it."""

    return Handler


def main() -> None:
    kept = Path(os.environ.get("LOGS_DIR", "/logs"), "artifacts", "office")
    keeper = Keeper(Path(__file__).with_name("seed.json"), kept)
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), handler(keeper)).serve_forever()


if __name__ == "__main__":
    main()
