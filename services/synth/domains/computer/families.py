"""The families of this domain."""

from __future__ import annotations

from services.synth.ports import Family

FAMILIES: tuple[Family, ...] = ()
"""All that there are; names are unique over all domains."""
