"""A calculator with a keypad."""

from __future__ import annotations

from functools import partial

from .arithmetic import KEYS, Calculator
from .window import Desktop, Spec


def show(desktop: Desktop, spec: Spec) -> None:
    """Opens the window."""
    inside, calculator, pressed = desktop.window(spec), Calculator(), ""
    display = desktop.label(inside, "calculator", "0")
    display.configure(background="white", anchor="e", relief="sunken")
    display.grid(row=0, column=0, columnspan=4, sticky="ew", pady=(0, 6))

    desktop.seen.name("calculator.keys", inside, lambda: pressed)

    def press(key: str) -> None:
        nonlocal pressed
        pressed += key
        calculator.press(key)
        display.configure(text=calculator.display)

    for number, key in enumerate(KEYS):
        button = desktop.button(inside, f"key.{key}", key, partial(press, key))
        button.configure(width=3)
        button.grid(row=number // 4 + 1, column=number % 4, padx=2, pady=2)
