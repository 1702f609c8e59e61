"""What training left in a run folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from services.trainer.journal.journal import Journal
from services.trainer.journal.records import Begun, decode


def largest_difference(one: Path, other: Path) -> float:
    """Between the weights that two runs ended with."""
    from safetensors.torch import load_file

    a, b = (load_file(folder / "weights" / "final" / "model.safetensors") for folder in (one, other))
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def steps_begun(folder: Path) -> Counter[str]:
    """How often each group was begun to be learned from, by what is left of the journal."""
    journal = Journal(folder / "journal")
    first = min(int(f.stem) for f in (folder / "journal").glob("*.journal"))
    records = [decode(body) for body in journal.read(first)]
    journal.close()
    return Counter(name for record in records if isinstance(record, Begun) for name in record.groups)
