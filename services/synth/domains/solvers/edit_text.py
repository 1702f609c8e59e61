"""Edits the lists line by line with the keys of an editor, and saves them."""

from __future__ import annotations

from .user import User, known, using


class Editor:
    """A list that is open in the editor."""

    def __init__(self, user: User, name: str) -> None:
        self._user, self._name = user, name
        user.click(f"open.{name}")
        user.text(f"text.{name}")
        user.click(f"text.{name}")

    def lines(self) -> list[str]:
        return self._user.text(f"text.{self._name}").split("\n")

    def change(self, old: str, new: str) -> None:
        """Writes over a line."""
        self._go(self.lines().index(old))
        self._user.press("shift+End")
        self._type(new, [new if line == old else line for line in self.lines()])

    def remove(self, line: str) -> None:
        """Takes a line out, with its end."""
        lines = self.lines()
        at = lines.index(line)
        self._go(at)
        keys = ("shift+Down", "BackSpace") if at + 1 < len(lines) else ("shift+End", "BackSpace", "BackSpace")
        self._user.press(*keys)
        self._until([*lines[:at], *lines[at + 1 :]])

    def add(self, line: str) -> None:
        """Writes a line at the end."""
        lines = self.lines()
        self._user.press("ctrl+End", "Return")
        self._until([*lines, ""])
        self._type(line, [*lines, line])

    def save(self) -> None:
        self._user.click("editor.save")
        self._user.until("editor.said", f"{self._name} was saved.")

    def _go(self, at: int) -> None:
        """To the beginning of a line."""
        self._user.press("ctrl+Home", *["Down"] * at, "Home")
        self._user.until(f"cursor.{self._name}", f"{at + 1}.0")

    def _type(self, text: str, lines: list[str]) -> None:
        self._user.type(text)
        self._until(lines)

    def _until(self, lines: list[str]) -> None:
        self._user.until(f"text.{self._name}", "\n".join(lines))


def main() -> None:
    steps = known()["steps"]
    with using() as user:
        shopping = Editor(user, "shopping")
        for kind, old, new in steps:
            if kind == "change":
                shopping.change(old, new)
            elif kind == "add":
                shopping.add(new)
            else:
                shopping.remove(old)
        shopping.save()
        moved = [old for kind, old, _ in steps if kind == "move"]
        if moved:
            cellar = Editor(user, "cellar")
            for line in moved:
                cellar.add(line)
            cellar.save()


if __name__ == "__main__":
    main()
