"""Goes through the tabs and changes what is wished, by the words beside each setting."""

from __future__ import annotations

from typing import Any

from .user import User, known, using


def wishes(user: User, task: dict[str, Any]) -> dict[str, str]:
    """Values by label: of the instruction, or of the person's part of the note."""
    if task["wishes"]:
        return dict(task["wishes"])
    lines = user.text("note").split("\n")
    at = lines.index(f"{task['name']}:") + 1
    return dict(line.split(" - ") for line in lines[at : lines.index("", at)])


def change(user: User, name: str, value: str) -> None:
    """Sets the setting of that name, which can be seen."""
    if value in ("on", "off"):
        if user.text(name) != value:
            user.click(name)
            user.until(name, value)
    elif f"{name}={value}" in user.screen():
        user.tick(f"{name}={value}")
    else:
        while (now := int(user.text(name))) != int(value):
            user.click(f"{name}.more" if now < int(value) else f"{name}.less")
            user.leave(name, str(now))


def main() -> None:
    task = known()
    with using() as user:
        wanted = wishes(user, task)
        user.text("settings.apply")
        for tab in [name for name in user.screen() if name.startswith("tab.")]:
            user.click(tab)
            user.until("settings.tab", tab.partition(".")[2])
            labels = {thing["text"]: name.partition(".label")[0] for name, thing in user.screen().items() if ".label" in name}
            for label, value in wanted.items():
                if label in labels:
                    change(user, labels[label], value)
        user.click("settings.apply")
        user.until("settings.said", "Applied.")


if __name__ == "__main__":
    main()
