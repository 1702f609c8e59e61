"""The families of this domain."""

from __future__ import annotations

from services.synth.domains.computer import forms, options, sorting, sums, texts
from services.synth.domains.computer.drawing import DeskFamily
from services.synth.ports import Family

FAMILIES: tuple[Family, ...] = (
    DeskFamily("note-to-form", forms.draw),
    DeskFamily("settings-dialog", options.draw),
    DeskFamily("edit-text", texts.draw),
    DeskFamily("sort-files", sorting.draw),
    DeskFamily("add-up", sums.draw),
)
"""All that there are; names are unique over all domains."""
