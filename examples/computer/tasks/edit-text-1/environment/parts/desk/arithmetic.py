"""What a pocket calculator does."""

from __future__ import annotations

from decimal import Decimal

KEYS = ("7", "8", "9", "/", "4", "5", "6", "*", "1", "2", "3", "-", "0", ".", "=", "+", "C")
MAX_DIGITS = 12


class Calculator:
    """What its display shows, key by key; without precedence, as pocket calculators have it."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.display = "0"
        self._held, self._sign, self._fresh = Decimal(0), "", True

    def press(self, key: str) -> None:
        """Takes a key of `KEYS`."""
        if key == "C" or self.display == "error":
            self._clear()
        if key.isdigit() or key == ".":
            self._digit(key)
        elif key != "C":
            self._apply(key)

    def _digit(self, key: str) -> None:
        if self._fresh:
            self.display, self._fresh = "0", False
        if len(self.display) < MAX_DIGITS and not (key == "." and "." in self.display):
            self.display = key if self.display == "0" and key != "." else self.display + key

    def _apply(self, key: str) -> None:
        value = Decimal(self.display)
        if self._sign and not self._fresh:
            try:
                value = {
                    "+": self._held.__add__, "-": self._held.__sub__, "*": self._held.__mul__, "/": self._held.__truediv__,
                }[self._sign](value)  # fmt: skip
            except ArithmeticError:
                self.display = "error"
                return
        self._held, self._sign, self._fresh = value, key if key != "=" else "", True
        self.display = f"{value.normalize():f}"[: MAX_DIGITS + 3]
