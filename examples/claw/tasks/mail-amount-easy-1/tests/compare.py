"""How offices, texts and files are compared. Pure but for reading files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from engine import Office, State

KINDS = ("mail", "events", "contacts", "files")


class Tampered(Exception):
    """The state did not come about by the requests that the journal has."""


def replayed(seed: State, kept: Path) -> State:
    """What the journal's requests make of the seed. The last request may be missing from the state: the service was ended
    between writing the one and the other.

    Raises:
        Tampered: the state that was kept is another one, or a request went otherwise than it says.
    """
    journal, state = kept / "journal.jsonl", kept / "state.json"
    if not journal.exists() and not state.exists():
        return seed
    office, before = Office(seed), seed
    for number, line in enumerate(journal.read_text(encoding="utf-8").splitlines(), 1):
        said, before = json.loads(line), office.state
        office = Office(before)
        status, _ = office.call(said["method"], said["path"], said["query"], said["body"])
        if status != said["status"]:
            raise Tampered(f"request {number} would have been answered with {status}, not {said['status']}")
    found: State = json.loads(state.read_text(encoding="utf-8")) if state.exists() else seed
    if found not in (office.state, before):
        raise Tampered("the state is another one than the requests make")
    return found


def has(text: str, words: str) -> bool:
    """Whether words are in a text, not as a part of longer ones or of another number."""
    inner = re.escape(words.lower()).replace(r"\ ", r"\s+")
    return re.search(rf"(?<![\w])(?<!\d[.,]){inner}(?![\w])(?![.,]\d)", text.lower()) is not None


def tidy(text: str) -> str:
    """A text without white space at the ends of lines, or empty lines at its end."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()


def changes(seed: State, state: State) -> Iterable[str]:
    """What differs between two offices, as `mail/m4`."""
    for kind in KINDS:
        for name in {**seed[kind], **state[kind]}:
            if seed[kind].get(name) != state[kind].get(name):
                yield f"{kind}/{name}"
    for channel, said in state["chat"].items():
        yield from (f"chat/{channel}/{n}" for n in range(len(seed["chat"][channel]), len(said)))


def difference(found: str | None, wanted: str) -> str:
    """Where two texts differ, in a few words."""
    if found is None:
        return "there is no such file"
    ours, theirs = tidy(wanted).splitlines(), tidy(found).splitlines()
    pairs = zip(range(1, len(ours) + 1), ours, theirs, strict=False)
    line = next((n for n, our, their in pairs if our != their), min(len(ours), len(theirs)) + 1)
    return f"{len(theirs)} lines, {len(ours)} wanted; the first that differs is {line}"


def digest_of(path: Path) -> str:
    """SHA-256 of a file; empty if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
