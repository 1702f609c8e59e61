"""The rows of a warm start, checked at the door."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet

from services.trainer.samples import Sample
from shared.errors import ConfigError


def read_rows(file: Path, vocab_size: int, longest: int) -> list[Sample]:
    """The rows of a parquet file with the columns `input_ids` and `loss_mask`, lists of int of equal lengths.

    Args:
        file: the parquet file.
        vocab_size: ids are below it.
        longest: most tokens a row may have.

    Raises:
        ConfigError: the file cannot be read, has no rows, or a row is malformed.
    """
    try:
        table = pyarrow.parquet.read_table(file, columns=["input_ids", "loss_mask"])
    except (OSError, pyarrow.ArrowException) as e:
        raise ConfigError(f"trainer.warm_start.rows: {file}: {e}") from None
    columns = table.to_pydict()
    rows = [
        _row(i, ids, mask, vocab_size, longest)
        for i, (ids, mask) in enumerate(zip(columns["input_ids"], columns["loss_mask"], strict=True))
    ]
    if not rows:
        raise ConfigError(f"trainer.warm_start.rows: {file} has no rows")
    return rows


def _row(number: int, ids: list[int], mask: list[int], vocab_size: int, longest: int) -> Sample:
    where = f"trainer.warm_start.rows: row {number}"
    if len(ids) != len(mask) or not 2 <= len(ids) <= longest:
        raise ConfigError(f"{where} has {len(ids)} ids and {len(mask)} mask values; both take the same, 2 to {longest}")
    if not all(0 <= i < vocab_size for i in ids) or not set(mask) <= {0, 1}:
        raise ConfigError(f"{where}: ids lie in 0..{vocab_size - 1} (the model's vocabulary), mask values are 0 or 1")
    return Sample(ids, 1, mask[1:], [0.0] * (len(ids) - 1))
