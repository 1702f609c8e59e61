"""What every table of the configuration is made of."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[float, Meta(ge=0)]
Whole = Annotated[int, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]

Tree = dict[str, Any]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration file."""
