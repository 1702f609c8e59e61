"""An OpenAI-compatible chat endpoint, asked with patience."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

RETRIED = (408, 409, 429, 500, 502, 503, 504)
CALL_S = 600.0
"""How long one answer may take."""


class NoAnswer(Exception):
    """The endpoint refused, or did not answer for too long; the text says which."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to ask.

    Attributes:
        base_url: `/v1` included.
        model: name to ask for.
        key: bearer token.
        patience_s: seconds of pauses between the attempts at one request, in all.
    """

    base_url: str
    model: str
    key: str
    patience_s: float

    def ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """The assistant's next message. Lost connections and busy answers are tried again, with growing pauses.

        Raises:
            NoAnswer: there will be none.
        """
        body = json.dumps({"model": self.model, "messages": messages, "tools": tools}).encode()
        pause, left = 0.2, self.patience_s
        while True:
            try:
                message: dict[str, Any] = json.loads(self._post(body))["choices"][0]["message"]
                return message
            except urllib.error.HTTPError as e:
                if e.code not in RETRIED:
                    raise NoAnswer(f"HTTP {e.code}: {e.read(500).decode(errors='replace')}") from e
                trouble = f"HTTP {e.code}"
            except (OSError, http.client.HTTPException) as e:
                trouble = str(e)
            if pause > left:
                raise NoAnswer(trouble)
            time.sleep(pause)
            pause, left = min(pause * 2, 4.0), left - pause

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(self.base_url.rstrip("/") + "/chat/completions", body, headers)
        with urllib.request.urlopen(request, timeout=CALL_S) as response:
            answer: bytes = response.read()
        return answer
