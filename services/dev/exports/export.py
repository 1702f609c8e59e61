"""`openforge export`: writes what was selected of a run to a folder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec

from services.collector.archive import MEDIA
from services.dev.archives import RunFolder, damage_lines, load, open_run
from services.dev.exports import atif
from services.dev.exports.chat import chat_rows
from services.dev.exports.content import Images, archived_images, image_path
from services.dev.exports.redact import redact_json
from services.dev.exports.selection import Chosen, Filter, select
from services.dev.exports.token_rows import TokenRow, token_rows
from services.dev.exports.trajectory import document, without_ids
from shared.errors import ArchiveError, ConfigError, FidelityError
from shared.events import Purpose


@dataclass(frozen=True, slots=True)
class Wish:
    """What to export, in which format (a key of `_WRITERS`), where to, and whether redacted.

    `choose`, where it is there, is given the folder and what passed the filter, and returns what of it is written.
    """

    to: str
    out: Path | None
    redact: bool
    wanted: Filter
    choose: Callable[[Path, list[Chosen]], list[Chosen]] | None = None


def export(root: Path, run_id: str, wish: Wish) -> int:
    """Writes the files and says how many; returns 1 if nothing was selected.

    Raises:
        ForgeError: there is no such run or format, the archive or the folder cannot be used, or a library is missing.
    """
    if wish.to not in _WRITERS:
        raise ConfigError(f"--to {wish.to}: the formats are {', '.join(_WRITERS)}")
    if wish.wanted.purpose not in (None, *get_args(Purpose)):
        raise ConfigError(f"--purpose {wish.wanted.purpose}: there are {', '.join(get_args(Purpose))}")
    run = open_run(root, run_id)
    history, damage = load(run)
    out = wish.out or run.folder / "exports" / wish.to
    try:
        out.mkdir(parents=True, exist_ok=True)
        chosen = list(select(history, wish.wanted))
        chosen = wish.choose(out, chosen) if wish.choose else chosen
        told = _WRITERS[wish.to](run, chosen, out, wish.redact)
    except OSError as e:
        raise ArchiveError(f"{out}: {e.strerror}") from None
    for line in damage_lines(damage):
        sys.stderr.write(f"the archive: {line}\n")
    sys.stdout.write(f"{len(chosen)} of {len(history.rollouts)} rollouts: {told} in {out}\n")
    return 0 if chosen else 1


def _write_atif(run: RunFolder, chosen: Iterable[Chosen], out: Path, redact: bool) -> str:
    """A folder per rollout, as Harbor has it: ``<rollout>/agent/trajectory.json``, with the images of its requests."""

    def make(one: Chosen) -> list[tuple[atif.Trajectory | None, Images]]:
        hashes = [m.sha256 for c in one.attempt.records for m in c.media]
        images = {} if redact else archived_images(run.archive, hashes)  # what an image shows cannot be redacted
        return [(document(one, images), images)]

    count = 0
    for made, images in _unbroken(chosen, make):
        if made is not None:
            _write_document(made, images, run.archive, out / made.trajectory_id / "agent", redact)
            count += 1
    return f"{count} trajectories"


def _write_document(made: atif.Trajectory, images: Images, archive: Path, folder: Path, redact: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for sha256, kind in images.items():
        target = folder / image_path(sha256, kind)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(archive / MEDIA / sha256, target)
    if redact:
        made = msgspec.convert(redact_json(msgspec.to_builtins(without_ids(made))), type=atif.Trajectory)
    (folder / "trajectory.json").write_bytes(atif.encode(made))


def _write_sft(run: RunFolder, chosen: Iterable[Chosen], out: Path, redact: bool) -> str:
    """``train.jsonl``, a conversation a line."""
    count = 0
    with (out / "train.jsonl").open("wb") as f:
        for row in (row for c in chosen for row in chat_rows(c)):
            built = msgspec.to_builtins(row)
            f.write(msgspec.json.encode(redact_json(built) if redact else built) + b"\n")
            count += 1
    return f"{count} conversations"


def _write_parquet(run: RunFolder, chosen: Iterable[Chosen], out: Path, redact: bool) -> str:
    """``train.parquet``, a training row a row. Token ids are not text: there is nothing to redact in them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("parquet needs pyarrow, which comes with the trainer: pip install 'openforgerl[trainer]'") from None
    if redact:
        raise ConfigError("token rows cannot be redacted: their ids spell out every text; --to sft can be")
    schema = pyarrow.schema([(name, _column(pyarrow, kind)) for name, kind in TokenRow.__annotations__.items()])
    count = 0
    with pyarrow.parquet.ParquetWriter(out / "train.parquet", schema) as writer:
        for row in _unbroken(chosen, lambda c: token_rows(c, run.config.collector)):
            writer.write_table(pyarrow.Table.from_pylist([msgspec.to_builtins(row)], schema=schema))
            count += 1
    return f"{count} rows"


def _column(pyarrow: Any, kind: str) -> Any:
    plain = {"str": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64()}
    return plain[kind] if kind in plain else pyarrow.list_({"int": pyarrow.int64(), "float": pyarrow.float32()}[kind[5:-1]])


def _unbroken(chosen: Iterable[Chosen], make: Callable[[Chosen], Iterable[Any]]) -> Iterator[Any]:
    """What is made of rollouts; those whose records contradict each other are named and left out."""
    for c in chosen:
        try:
            yield from make(c)
        except FidelityError as e:
            sys.stderr.write(f"left out {c.rollout.rollout_id}: {e}\n")


_WRITERS: dict[str, Callable[[RunFolder, Iterable[Chosen], Path, bool], str]] = {
    "atif": _write_atif,
    "sft": _write_sft,
    "parquet": _write_parquet,
}
