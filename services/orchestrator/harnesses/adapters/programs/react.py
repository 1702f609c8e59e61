"""A small agent: asks a chat endpoint what to do, runs the shell commands that it answers with, until it answers without one.

    python react.py INSTRUCTION_FILE

It speaks OpenAI's chat completions with one tool, `bash`, whose commands run in the current folder. Environment:
OPENAI_BASE_URL (http only), OPENAI_MODEL, OPENAI_API_KEY, MAX_TURNS (8), OUTPUT_CHARS (4000), RETRY_S (20).
Standard library only, and little of it: http.client and subprocess would double the time of a start.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

TYPE_CHECKING = False  # importing typing takes longer than all else here
if TYPE_CHECKING:
    from typing import Any

TOOLS = [{"type": "function", "function": {
    "name": "bash", "description": "Run a shell command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}}]  # fmt: skip
RETRIED = (408, 409, 429, 500, 502, 503, 504)


class Unreachable(Exception):
    """The endpoint did not answer, or asked to come again."""


class Endpoint:
    """An OpenAI-compatible chat endpoint behind plain HTTP."""

    def __init__(self, base_url: str, model: str, key: str, retry_s: float) -> None:
        scheme, _, rest = base_url.partition("://")
        if scheme != "http":
            sys.exit("OPENAI_BASE_URL must start with http://")
        address, _, path = rest.partition("/")
        host, _, port = address.partition(":")
        self.address, self.host = (host, int(port or 80)), address
        self.path = f"/{path}".rstrip("/") + "/chat/completions"
        self.model, self.key, self.retry_s = model, key, retry_s

    def chat(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The assistant's next message. Connection errors and busy answers are retried, with growing pauses."""
        body = json.dumps({"model": self.model, "messages": messages, "tools": TOOLS}).encode()
        pause, until = 0.2, time.monotonic() + self.retry_s
        while True:
            try:
                message: dict[str, Any] = json.loads(self.post(body))["choices"][0]["message"]
                return message
            except (OSError, Unreachable) as e:
                if time.monotonic() + pause > until:
                    sys.exit(f"no answer from the model: {e}")
            time.sleep(pause)
            pause = min(pause * 2, 4.0)

    def post(self, body: bytes) -> bytes:
        """One request on a connection of its own; HTTP/1.0, so that the answer is whole when the connection ends."""
        head = (f"POST {self.path} HTTP/1.0\r\nHost: {self.host}\r\nAuthorization: Bearer {self.key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")  # fmt: skip
        with socket.create_connection(self.address) as connection, connection.makefile("rb") as answer:
            connection.sendall(head.encode() + body)
            status, length = answer.readline().split(b" ", 2), None
            while (line := answer.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            reply = answer.read(length)
        if len(status) < 2 or (length is not None and len(reply) < length):
            raise Unreachable("the connection ended early")
        code = int(status[1])
        if code in RETRIED:
            raise Unreachable(f"HTTP {code}")
        if code != 200:
            sys.exit(f"HTTP {code}: {reply[:500].decode(errors='replace')}")
        return reply


def bash(command: str, limit: int) -> str:
    """What a shell command prints, both streams, `limit` characters at most; `ok` when it prints nothing."""
    read, write = os.pipe()
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", command], env, file_actions=[
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_DUP2, write, 2),
    ])  # fmt: skip
    os.close(write)
    kept = b""
    with open(read, "rb", buffering=0) as output:
        while chunk := output.read(65536):
            kept += chunk[: 4 * limit - len(kept)]
    os.waitpid(pid, 0)
    return kept.decode(errors="replace")[:limit].rstrip("\n") or "ok"


def run_call(call: dict[str, Any], limit: int) -> str:
    """The result of one tool call."""
    try:
        command = json.loads(call["function"]["arguments"])["command"]
    except (ValueError, KeyError, TypeError):
        return "bad arguments"
    if not isinstance(command, str) or "\0" in command:
        return "bad command"
    return bash(command, limit)


def main() -> None:
    env = os.environ
    endpoint = Endpoint(
        env["OPENAI_BASE_URL"], env["OPENAI_MODEL"], env.get("OPENAI_API_KEY", "none"), float(env.get("RETRY_S", "20"))
    )
    limit = int(env.get("OUTPUT_CHARS", "4000"))
    with open(sys.argv[1], encoding="utf-8") as file:
        messages: list[dict[str, Any]] = [{"role": "user", "content": file.read().strip()}]
    for _ in range(int(env.get("MAX_TURNS", "8"))):
        reply = endpoint.chat(messages)
        calls = reply.get("tool_calls") or []
        messages.append(
            {"role": "assistant", "content": reply.get("content") or "", **({"tool_calls": calls} if calls else {})}
        )
        if not calls:
            break
        for call in calls:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": run_call(call, limit)})
    with open(f"{env['LOGS_DIR']}/agent/conversation.json", "w", encoding="utf-8") as file:
        json.dump(messages, file)


if __name__ == "__main__":
    main()
