"""What a run needs: tasks, tokenizer, untrained model and warm-start rows."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from transformers import AutoTokenizer

from examples.claw.learn.family import READ, REPLY, SAYS, demonstrate, make_task, write_task
from examples.lookup.family import FILES, KEYS, NUMBERS, Split
from examples.lookup.model import TOKENIZER, build
from examples.lookup.rows import RowMaker, make_rows, write_rows
from examples.lookup.train_tokenizer import train
from examples.lookup.words import Message

COUNTS: dict[Split, int] = {"train": 64, "heldout": 48}
PHRASES = (SAYS, READ, REPLY)
"""Of episodes; one token each."""


class OfficeRows(RowMaker):
    """Rows of this example: its teacher, its tables, its words."""

    words: Sequence[str] = tuple(str(word) for word in chain(KEYS, FILES, NUMBERS))

    def episode(self) -> list[Message]:
        """See `RowMaker.episode`."""
        return demonstrate(make_task(self._rng, "train"), self._rng)

    def table(self, table: tuple[tuple[str, int], ...]) -> str:
        """See `RowMaker.table`."""
        return "".join(f"{SAYS} {key} {number}\n" for key, number in table)


def prepare(folder: Path, seed: int, rows: int) -> None:
    """Writes `tasks/`, `tokenizer/`, `model/` and `rows.parquet` into a new folder, always the same for a seed."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    write_tasks(folder / "tasks")
    train(_corpus(random.Random(0)), PHRASES).save_pretrained(folder / "tokenizer")
    (folder / "tokenizer" / "chat_template.jinja").write_bytes((TOKENIZER / "chat_template.jinja").read_bytes())
    build(folder / "model", seed, folder / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    write_rows(folder / "rows.parquet", make_rows(tokenizer, seed, rows, kind=OfficeRows))


def write_tasks(folder: Path) -> None:
    """Writes `train/*` and `heldout/*`."""
    for split, count in COUNTS.items():
        rng = random.Random(f"{split}/7")
        for n in range(count):
            write_task(folder / split / f"chat-reply-{n}", make_task(rng, split), n)


def _corpus(rng: random.Random) -> Iterator[str]:
    """Texts that hold every piece of an episode often enough to be merged."""
    for _ in range(3000):
        for message in demonstrate(make_task(rng, "train"), rng):
            yield f"{message['role']}\n{message['content']}"
            for call in message.get("tool_calls", []):
                yield '\n{"name": "bash", "arguments": {"command": "' + call["function"]["arguments"]["command"] + '"}}\n'
    yield from ["system\ntools: bash"] * 50
    yield from (f"red {number} " * 20 for number in range(100))
    yield from (f" {word}" * 50 for word in FILES + KEYS)
