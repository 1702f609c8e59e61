"""A harness for models that see: one conversation, a picture of the working folder in every turn. Standard library only."""

import base64
import json
import os
import urllib.request
from pathlib import Path


def ask(messages: list[object]) -> object:
    """The model's next message."""
    body = json.dumps({"model": "policy", "messages": messages, "max_tokens": 12}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["choices"][0]["message"]


def main() -> None:
    """The conversation."""
    messages: list[object] = []
    for file in sorted(Path.cwd().glob("*.png")):
        url = "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
        parts = [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": url}}]
        messages.append({"role": "user", "content": parts})
        messages.append(ask(messages))


if __name__ == "__main__":
    main()
