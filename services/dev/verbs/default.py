"""Groups of verbs one of which needs no name."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

RUN = "run"


class WithDefault(TyperGroup):
    """`openforge GROUP CONFIG` is `openforge GROUP run CONFIG`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands
        return super().resolve_command(ctx, args if known else [RUN, *args])
