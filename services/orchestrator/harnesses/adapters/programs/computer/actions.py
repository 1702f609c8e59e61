"""The tool `computer`: what the model is told of it, and what its calls mean. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

BUTTONS = {"left": "1", "middle": "2", "right": "3"}
WHEEL = {"up": "4", "down": "5", "left": "6", "right": "7"}
MAX_TEXT, MAX_CLICKS, MAX_WAIT_S = 10_000, 50, 10.0


class BadCall(Exception):
    """A call that cannot be carried out; the text tells the model why."""


@dataclass(frozen=True, slots=True)
class Act:
    """What a call asks for: arguments of xdotool (none: touch nothing), a pause in seconds, the end of the task."""

    xdotool: tuple[str, ...] = ()
    wait_s: float = 0.0
    done: bool = False


def tool(width: int, height: int) -> dict[str, Any]:
    """The tool's description for a screen of so many pixels."""
    number, text = {"type": "integer"}, {"type": "string"}
    properties = {
        "action": {"type": "string", "enum": list(_ACTIONS)},
        "x": number, "y": number,
        "to_x": number | {"description": "where a drag ends"}, "to_y": number,
        "button": {"type": "string", "enum": list(BUTTONS), "description": "of a click; left by default"},
        "text": text | {"description": "what to type"},
        "keys": text | {"description": "to press, by their X names: Return, Tab, ctrl+a; blanks between several"},
        "direction": {"type": "string", "enum": list(WHEEL), "description": "of a scroll; down by default"},
        "amount": number | {"description": "clicks of the wheel; 3 by default"},
        "seconds": {"type": "number", "description": "to wait; 1 by default"},
    }  # fmt: skip
    description = (
        f"Acts on a screen of {width}x{height} pixels; x grows to the right, y downwards. A screenshot follows every call. "
        "Call it with the action done when the task is finished."
    )
    parameters = {"type": "object", "properties": properties, "required": ["action"]}
    return {"type": "function", "function": {"name": "computer", "description": description, "parameters": parameters}}


def read_call(name: str, arguments: str, width: int, height: int) -> Act:
    """What a tool call means.

    Args:
        name: of the tool.
        arguments: JSON text, as the model wrote it.
        width, height: of the screen in pixels.

    Raises:
        BadCall: it means nothing.
    """
    if name != "computer":
        raise BadCall(f"no tool {name!r}; there is only computer")
    try:
        given = json.loads(arguments)
    except ValueError as e:
        raise BadCall(f"the arguments are not valid JSON: {e}") from None
    if not isinstance(given, dict) or given.get("action") not in _ACTIONS:
        raise BadCall(f"action must be one of {', '.join(_ACTIONS)}")
    return _ACTIONS[given["action"]](_Fields(given, width, height))


@dataclass(frozen=True, slots=True)
class _Fields:
    """The arguments of a call, looked at one by one."""

    given: Mapping[str, Any]
    width: int
    height: int

    def point(self, x: str = "x", y: str = "y") -> tuple[str, str]:
        return str(self.whole(x, None, 0, self.width - 1)), str(self.whole(y, None, 0, self.height - 1))

    def whole(self, name: str, default: int | None, low: int, high: int) -> int:
        value = self.given.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise BadCall(f"{name} must be a whole number from {low} to {high}")
        return value

    def choice(self, name: str, choices: Mapping[str, str], default: str) -> str:
        value = self.given.get(name, default)
        if not isinstance(value, str) or value not in choices:
            raise BadCall(f"{name} must be one of {', '.join(choices)}")
        return choices[value]

    def text(self, name: str) -> str:
        value = self.given.get(name)
        if not isinstance(value, str) or not value or len(value) > MAX_TEXT or "\0" in value:
            raise BadCall(f"{name} must be a text of 1 to {MAX_TEXT} characters")
        return value

    def seconds(self) -> float:
        value = self.given.get("seconds", 1)
        if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= MAX_WAIT_S:
            raise BadCall(f"seconds must be a number from 0 to {MAX_WAIT_S:g}")
        return float(value)


def _click(f: _Fields) -> Act:
    return Act(("mousemove", *f.point(), "click", f.choice("button", BUTTONS, "left")))


def _double_click(f: _Fields) -> Act:
    button = f.choice("button", BUTTONS, "left")
    return Act(("mousemove", *f.point(), "click", "--repeat", "2", "--delay", "80", button))


def _drag(f: _Fields) -> Act:
    return Act(("mousemove", *f.point(), "mousedown", "1", "mousemove", *f.point("to_x", "to_y"), "mouseup", "1"))


def _scroll(f: _Fields) -> Act:
    amount = str(f.whole("amount", 3, 1, MAX_CLICKS))
    return Act(("mousemove", *f.point(), "click", "--repeat", amount, "--delay", "20", f.choice("direction", WHEEL, "down")))


def _key(f: _Fields) -> Act:
    keys = f.text("keys").split()
    if not keys:
        raise BadCall("keys must name a key")
    return Act(("key", "--delay", "20", "--", *keys))


_ACTIONS: dict[str, Callable[[_Fields], Act]] = {
    "screenshot": lambda _: Act(),
    "click": _click,
    "double_click": _double_click,
    "move": lambda f: Act(("mousemove", *f.point())),
    "drag": _drag,
    "type": lambda f: Act(("type", "--delay", "12", "--", f.text("text"))),
    "key": _key,
    "scroll": _scroll,
    "wait": lambda f: Act(wait_s=f.seconds()),
    "done": lambda _: Act(done=True),
}
