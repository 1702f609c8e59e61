"""A harness for fault tests: has conversations of a given shape, and tries again as real clients do when a call fails.

    python talk.py SHAPE_FILE

The shape is JSON: `turns` of each conversation, `agents` (conversations at once), `rewrite` (half-way through, the history is
replaced by a summary), `stream`, `pause_s` between two turns. For every reply that came whole, a line with its text goes to
standard output. The last number that the model said becomes the content of `out.txt`. Standard library only.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

RETRIED = (408, 409, 429, 500, 502, 503, 504)
PATIENCE_S, PAUSE_S, TIMEOUT_S = 60.0, 0.3, 30.0


class Broken(Exception):
    """A reply that did not come whole, or a call that is to be tried again."""


class Agent(threading.Thread):
    """One conversation.

    Attributes:
        said: texts of the replies that came whole.
    """

    def __init__(self, number: int, shape: dict[str, Any]) -> None:
        super().__init__()
        self.said: list[str] = []
        self._shape = shape
        self._messages = [{"role": "user", "content": f"You are agent {number} of process {os.getpid()}."}]

    def run(self) -> None:
        for turn in range(self._shape["turns"]):
            text = patiently(self._messages, stream=self._shape["stream"])
            os.write(1, json.dumps(text).encode() + b"\n")
            self.said.append(text)
            if self._shape["rewrite"] and turn == self._shape["turns"] // 2:
                self._messages = [self._messages[0], {"role": "user", "content": f"What happened so far: {len(self.said)}."}]
            else:
                self._messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"Go on, turn {turn}."}]
            time.sleep(self._shape["pause_s"])


def patiently(messages: list[dict[str, str]], *, stream: bool) -> str:
    """The text of the model's reply, however often it takes."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask({"model": "policy", "messages": messages, "stream": stream})
        except (OSError, http.client.HTTPException, Broken) as e:
            if time.monotonic() > until:
                sys.exit(f"no answer from the model: {e}")
        time.sleep(PAUSE_S)


def ask(body: dict[str, Any]) -> str:
    """One call."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=TIMEOUT_S)
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    try:
        connection.request("POST", f"{url.path}/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read()  # raises IncompleteRead when the connection ends early
    finally:
        connection.close()
    if response.status in RETRIED:
        raise Broken(f"HTTP {response.status}")
    if response.status != 200:
        sys.exit(f"HTTP {response.status}: {answer[:300]!r}")
    return streamed(answer) if body["stream"] else str(json.loads(answer)["choices"][0]["message"]["content"])


def streamed(answer: bytes) -> str:
    """The text of a stream."""
    if b"data: [DONE]" not in answer:
        raise Broken("the stream ended early")
    events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith(b"data: {")]
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def main() -> None:
    """The command line."""
    with open(sys.argv[1], encoding="utf-8") as file:
        shape = json.load(file)
    agents = [Agent(number, shape) for number in range(shape["agents"])]
    for agent in agents:
        agent.start()
    for agent in agents:
        agent.join()
    with open("out.txt", "w", encoding="utf-8") as file:
        file.write(agents[0].said[-1].split()[1])


if __name__ == "__main__":
    main()
