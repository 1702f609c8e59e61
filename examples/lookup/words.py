"""How each harness words an episode. Standard library only.

A demonstration has to look to the model as its own rollouts will. The teacher speaks as the `react` harness does; others have a
system message, name an empty output otherwise, or end with a command instead of an answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
Wording = Callable[[list[Message], random.Random], list[Message]]

SYSTEM = "use bash"
"""The system prompt in `harnesses/*.toml`."""
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What mini-swe-agent takes for the end when a command prints it."""
NO_OUTPUT = "(no output)"
CURRENT_DATE, CURRENT_FOLDER = "Current date:", "Current working directory:"


def call(command: str) -> Message:
    """The assistant asks for a shell command."""
    function = {"name": "bash", "arguments": {"command": command}}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


def result(text: str) -> Message:
    """What the command printed."""
    return {"role": "tool", "content": text}


def _react(messages: list[Message], _: random.Random) -> list[Message]:
    return messages


def _mini(messages: list[Message], _: random.Random) -> list[Message]:
    """mini-swe-agent ends by a command."""
    return [{"role": "system", "content": SYSTEM}, *messages[:-1], call(f"echo {SUBMIT}")]


def _pi(messages: list[Message], rng: random.Random) -> list[Message]:
    """pi tells date and folder, and leaves the last line end of an output; any date will do."""
    date = f"20{rng.randrange(100):02}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    system = f"{SYSTEM}\n{CURRENT_DATE} {date}\n{CURRENT_FOLDER} /app"
    said = [result(_pi_output(m["content"])) if m["role"] == "tool" else m for m in messages]
    return [{"role": "system", "content": system}, *said]


def _pi_output(text: str) -> str:
    return NO_OUTPUT if text == "ok" else f"{text}\n"


WORDINGS: dict[str, Wording] = {"react": _react, "mini": _mini, "pi": _pi}
"""An episode of the teacher as the model sees it in a harness; randomness for what differs from rollout to rollout."""
