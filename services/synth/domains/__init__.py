"""Kinds of environments: what tasks of a kind are made of, and families of them."""

from __future__ import annotations

from services.synth.domains.browser import families as browser
from services.synth.domains.claw import families as claw
from services.synth.domains.computer import families as computer
from services.synth.ports import Family

FAMILIES: tuple[Family, ...] = (*claw.FAMILIES, *browser.FAMILIES, *computer.FAMILIES)
"""All that there are."""
