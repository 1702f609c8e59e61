"""Rows for the warm start: ``python -m examples.lookup.rows OUT --model DIR --seed N [--harness mini]``.

OUT is a parquet file with the columns `input_ids` and `loss_mask` (lists of int32, equal lengths), one text a row.
Demonstrations of the careless teacher, rendered through the chat template, take turns with look-up drills: texts without any
meaning, whose repetitions teach to find something that was seen before.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from transformers import AutoTokenizer

from examples.lookup.family import FILES, KEYS, LINES, NUMBERS, TARGETS, TOOLS, demonstrate, make_task, render_table
from examples.lookup.words import WORDINGS, Message

SCHEMA = pa.schema([("input_ids", pa.list_(pa.int32())), ("loss_mask", pa.list_(pa.int32()))])
REPEATED_TOKENS = 72
DRILL_LINES = 14


class Row(NamedTuple):
    """A text as L token ids, and 1 for those of them that are trained."""

    input_ids: list[int]
    loss_mask: list[int]


class RowMaker:
    """Draws rows for a tokenizer.

    Args:
        tokenizer: of the model that will be trained.
        rng: where every choice comes from.
        harness: whose words the demonstrations are put in.

    Attributes:
        keys, numbers: that a line of a table has.
        words: all that are one token each.
    """

    keys: Sequence[str] = KEYS
    numbers: Sequence[int] = NUMBERS
    words: Sequence[str] = tuple(str(word) for word in chain(KEYS, FILES, TARGETS, NUMBERS))

    def __init__(self, tokenizer: AutoTokenizer, rng: random.Random, harness: str = "react") -> None:
        self._tokenizer = tokenizer
        self._rng = rng
        self._word = WORDINGS[harness]
        self._head = self._encode("<|im_start|>assistant\n")
        self._words = [self._encode(f" {word}")[0] for word in self.words]
        self._encode_line = cache(lambda key, number: self._encode(self.table(((key, number),))))

    def episode(self) -> list[Message]:
        """The teacher solving a training task."""
        return demonstrate(make_task(self._rng, "train"), self._rng).messages

    def table(self, table: tuple[tuple[str, int], ...]) -> str:
        """A table as an observation shows it."""
        return render_table(table)

    def demonstration(self) -> Row:
        """The teacher solving a training task. Trained: all that the assistant says, the end of its turns included."""
        messages = self._word(self.episode(), self._rng)
        ids = self._encode(self._tokenizer.apply_chat_template(messages, tools=TOOLS, tokenize=False))
        return Row(ids, self._assistant_mask(ids))

    def drill(self) -> Row:
        """A drill of one of the two kinds."""
        return self.repetition() if self._rng.random() < 0.5 else self.look_ups()

    def repetition(self) -> Row:
        """Random words, again and again. Trained: what could have been known, one word into the second time."""
        length = self._rng.randint(12, 24)
        ids = [self._rng.choice(self._words) for _ in range(length)]
        mask = [0] * (length + 1) + [1] * REPEATED_TOKENS
        return Row((ids * 6)[:REPEATED_TOKENS], mask[:REPEATED_TOKENS])

    def look_ups(self) -> Row:
        """A table whose lines come again in random order. Trained: the numbers of the repeated lines."""
        keys = self._rng.sample(self.keys, LINES)
        table = tuple(zip(keys, self._rng.sample(self.numbers, LINES), strict=True))
        ids = self._encode("<|im_start|>tool\n" + self.table(table))
        mask = [0] * len(ids)
        numbers = dict(table)
        for key in [self._rng.choice(keys) for _ in range(DRILL_LINES)]:
            line = self._encode_line(key, numbers[key])
            ids += line
            mask += [0] * (len(line) - 2) + [1, 0]
        return Row(ids, mask)

    def _assistant_mask(self, ids: list[int]) -> list[int]:
        mask, speaking = [0] * len(ids), False
        for i, token in enumerate(ids):
            mask[i] = int(speaking)
            if token == self._tokenizer.eos_token_id:
                speaking = False
            elif ids[max(0, i + 1 - len(self._head)) : i + 1] == self._head:
                speaking = True
        return mask

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def make_rows(
    tokenizer: AutoTokenizer, seed: int, count: int, harness: str = "react", kind: type[RowMaker] = RowMaker
) -> list[Row]:
    """`count` rows, always the same for a tokenizer, a seed and a harness: demonstration, drill, demonstration, ..."""
    maker = kind(tokenizer, random.Random(f"sft{seed}"), harness)
    return [maker.drill() if i % 2 else maker.demonstration() for i in range(count)]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes a parquet file of rows."""
    ids, masks = zip(*rows, strict=True)
    pq.write_table(pa.table([list(ids), list(masks)], schema=SCHEMA), path)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write rows for the warm start.")
    parser.add_argument("out", type=Path, metavar="OUT", help="parquet file to write")
    parser.add_argument("--model", type=Path, required=True, help="model folder, for its tokenizer")
    parser.add_argument("--seed", type=int, default=0, help="of the rows (default: 0)")
    parser.add_argument("--rows", type=int, default=9600, help="how many; steps x batch of the warm start (default: 9600)")
    parser.add_argument("--harness", choices=WORDINGS, default="react", help="whose words are used (default: react)")
    args = parser.parse_args()
    write_rows(args.out, make_rows(AutoTokenizer.from_pretrained(args.model), args.seed, args.rows, args.harness))


if __name__ == "__main__":
    main()
