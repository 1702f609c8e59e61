"""Who a task is for and what it calls for, where nobody configured that. All made up."""

from __future__ import annotations

PERSONAS = (
    "an office manager of a small architects' practice", "a teacher who prepares a school trip",
    "the treasurer of a sports club",
    "a nurse who plans the shifts of a ward", "a freelance translator with five customers", "a student who writes a thesis",
    "the owner of a bicycle repair shop", "a researcher who keeps the data of a field study", "an event planner before a fair",
    "a property manager of forty flats", "a support engineer on call", "the secretary of a choir", "a librarian",
    "an accountant in the last week of a quarter", "a recruiter with three open positions", "a baker who orders supplies",
    "a project lead whose team sits in two time zones", "a volunteer who coordinates a food bank", "a journalist on a deadline",
    "a lab technician who looks after instruments",
)  # fmt: skip
SKILLS = (
    "finding one thing among many alike", "joining two sources by a key", "adding up amounts", "resolving a conflict",
    "following a written policy", "checking before changing", "leaving everything else as it is", "working out dates",
    "reading a long conversation", "converting a format", "spotting what is missing", "answering in a given form",
    "renaming by a rule", "mending a small program", "removing what is double", "deciding between two that both fit in part",
    "doing steps in the right order", "summarising with exact figures", "noticing an exception", "undoing a mistake",
)  # fmt: skip
