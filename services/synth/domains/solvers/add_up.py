"""Adds up the lines of the note on the calculator, and enters what that shows."""

from __future__ import annotations

import re
from decimal import Decimal

from .note_to_form import read
from .user import User, known, using


def calculate(user: User, keys: str) -> str:
    """What the calculator shows after these keys."""
    before = user.text("calculator.keys")
    user.click_all([f"key.{key}" for key in keys])
    user.until("calculator.keys", before + keys)
    return user.text("calculator")


def main() -> None:
    who = known()["who"]
    with using() as user:
        amounts = []
        for line in read(user):
            pieces = re.search(r"(\d+) pieces", line)
            if line.startswith(who):
                amount = line.rpartition(", ")[2]
                amounts.append(calculate(user, f"C{pieces[1]}*{amount}=") if pieces else amount)
        total = calculate(user, f"C{'+'.join(amounts)}=")
        user.write("total", f"{Decimal(total):.2f}")
        user.click("form.save")
        user.until("form.said", "Saved as totals-1.")


if __name__ == "__main__":
    main()
