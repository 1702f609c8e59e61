"""Shows the windows that data.json in the current folder names; what becomes of its tables goes to state.json."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ..kept import Kept
from .window import Desktop


def main() -> None:
    kept = Kept(Path.cwd())
    desktop = Desktop(kept)
    for spec in kept.settings["windows"]:
        import_module(f"{__package__}.{spec['program']}").show(desktop, spec)
    desktop.run()


if __name__ == "__main__":
    main()
