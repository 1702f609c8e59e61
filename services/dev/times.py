"""Time spans as people write them."""

from __future__ import annotations

import re

from shared.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str, option: str) -> float:
    """A time span.

    >>> seconds("10m", "--since")
    600.0

    Raises:
        ConfigError: it is none; `option` is where it was given.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if found is None:
        raise ConfigError(f"{option} {text!r}: write it as 90s, 10m, 2h or 1d")
    return float(found[1]) * _UNITS[found[2]]
