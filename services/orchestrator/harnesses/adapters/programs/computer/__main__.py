"""The agent: shows a model a screen, does what it asks, until it says that it is done.

    python -m computer INSTRUCTION_FILE

It speaks OpenAI's chat completions with one tool, `computer` (see `actions.py`). After every reply it sends one user message
with a screenshot, so the conversation only ever grows (unless KEEP_IMAGES is set). Environment: OPENAI_BASE_URL, OPENAI_MODEL,
OPENAI_API_KEY; START, shell command of the program to show; SCREEN (1024x768); MAX_TURNS (30); KEEP_IMAGES, how many
screenshots stay in the conversation (0: all); RETRY_S (60).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from .actions import Act, BadCall, read_call, tool
from .chat import Endpoint, NoAnswer
from .desktop import Desktop, DesktopError
from .screen import data_url, png

Message = dict[str, Any]


class Agent:
    """One task on one desktop.

    Args:
        endpoint: the model.
        desktop: that it sees and touches.
        keep_images: screenshots that stay in the conversation; 0 keeps all.
    """

    def __init__(self, endpoint: Endpoint, desktop: Desktop, keep_images: int) -> None:
        self.messages: list[Message] = []
        self._endpoint, self._desktop, self._keep_images = endpoint, desktop, keep_images
        self._tools = [tool(desktop.width, desktop.height)]

    def run(self, instruction: str, max_turns: int) -> None:
        """Works on the task until the model is done, or `max_turns` model calls were made.

        Raises:
            NoAnswer: the model cannot be reached any more.
        """
        self._show(instruction)
        for _ in range(max_turns):
            reply = self._endpoint.ask(self.messages, self._tools)
            calls = reply.get("tool_calls") or []
            self.messages.append(_assistant(reply, calls))
            done = [self._answer(call) for call in calls]
            if not calls or any(done):
                break
            self._show()

    def _answer(self, call: Message) -> bool:
        """Carries out a tool call and answers it; whether it ends the task."""
        try:
            act = read_call(call["function"]["name"], call["function"]["arguments"], self._desktop.width, self._desktop.height)
            result = self._carry_out(act) or "ok"
        except BadCall as e:
            act, result = Act(), str(e)
        self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return act.done

    def _carry_out(self, act: Act) -> str:
        time.sleep(act.wait_s)
        return self._desktop.touch(act.xdotool) if act.xdotool else ""

    def _show(self, text: str = "") -> None:
        """Adds a user message with a screenshot; OpenAI's tool messages hold no images."""
        image = {"type": "image_url", "image_url": {"url": data_url(png(self._desktop.settled())), "detail": "high"}}
        self.messages.append({"role": "user", "content": [*([{"type": "text", "text": text}] if text else []), image]})
        if self._keep_images:
            _drop_images(self.messages, self._keep_images)


def _assistant(reply: Message, calls: list[Message]) -> Message:
    return {"role": "assistant", "content": reply.get("content") or "", **({"tool_calls": calls} if calls else {})}


def _drop_images(messages: list[Message], keep: int) -> None:
    """Leaves a word in place of every screenshot but the last `keep`."""
    shown = [m for m in messages if m["role"] == "user" and m["content"][-1]["type"] == "image_url"]
    for message in shown[:-keep]:
        message["content"][-1] = {"type": "text", "text": "[an earlier screenshot]"}


def main() -> None:
    env = os.environ
    endpoint = Endpoint(
        env["OPENAI_BASE_URL"], env["OPENAI_MODEL"], env.get("OPENAI_API_KEY", "none"), float(env.get("RETRY_S", "60"))
    )
    width, height = (int(side) for side in env.get("SCREEN", "1024x768").split("x"))
    instruction = Path(sys.argv[1]).read_text(encoding="utf-8").strip()
    try:
        with Desktop(width, height, env["START"]) as desktop:
            agent = Agent(endpoint, desktop, int(env.get("KEEP_IMAGES", "0")))
            try:
                agent.run(instruction, int(env.get("MAX_TURNS", "30")))
            finally:
                Path(env["LOGS_DIR"], "agent", "conversation.json").write_text(json.dumps(agent.messages), encoding="utf-8")
    except (DesktopError, NoAnswer) as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
