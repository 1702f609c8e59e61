"""What supervised training learns from, checked at the door."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from services.trainer.batch.samples import Sample
from services.trainer.sft.text import HuggingFaceTokenizer, Message, Tokenizer, Unaligned, rows_of
from shared.errors import ConfigError

SETTING = "trainer.warm_start.rows"
_IDS, _EXPORTED = ("input_ids", "loss_mask"), ("prompts", "responses", "response_mask")
TOO_LONG = "longer than actor.ppo_max_token_len_per_gpu"
UNTRAINED = "nothing in it is to be trained"


@dataclass(slots=True)
class Rows:
    """Rows to learn from.

    Attributes:
        samples: the rows.
        keys: what each is of; rows of one rollout have one key.
        refused: rows or conversations that are left out, per reason.
    """

    samples: list[Sample] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, ids: list[int], mask: list[int], key: str, limits: Limits, where: str) -> None:
        """Adds a row.

        Raises:
            ConfigError: it is malformed, or does not fit the model.
        """
        if len(ids) != len(mask) or len(ids) < 2:
            raise ConfigError(f"{where} has {len(ids)} ids and {len(mask)} mask values; both take the same, two at least")
        if not all(0 <= i < limits.vocab_size for i in ids) or not set(mask) <= {0, 1}:
            raise ConfigError(
                f"{where}: ids lie in 0..{limits.vocab_size - 1} (the model's vocabulary), mask values are 0 or 1"
            )
        if len(ids) > limits.longest or not any(mask[1:]):
            self.refused[TOO_LONG if len(ids) > limits.longest else UNTRAINED] += 1
            return
        self.samples.append(Sample(ids, 1, mask[1:], [0.0] * (len(ids) - 1)))
        self.keys.append(key)

    def split(self, ratio: float, seed: int) -> tuple[list[Sample], list[Sample]]:
        """Rows to learn from, and rows to measure on: about `ratio` of what they are of, always the same for a seed."""
        held = {key for key in self.keys if _share(key, seed) < ratio}
        pairs = list(zip(self.samples, self.keys, strict=True))
        return [s for s, key in pairs if key not in held], [s for s, key in pairs if key in held]


@dataclass(frozen=True, slots=True)
class Limits:
    """What fits the model: ids below `vocab_size`, rows of up to `longest` tokens."""

    vocab_size: int
    longest: int


def rows_file(said: str) -> Path:
    """The file that `rows` names: itself, or what `openforge export` put into the folder.

    Raises:
        ConfigError: there is none.
    """
    path = Path(said)
    found = next((f for f in (path, path / "train.jsonl", path / "train.parquet") if f.is_file()), None)
    if found is None:
        raise ConfigError(f"{SETTING}: {said}: no such file, nor a folder with train.jsonl or train.parquet{_hint(path)}")
    return found


def _hint(path: Path) -> str:
    """What to do where a run is named in place of its export."""
    if not (path / "config.json").is_file():
        return ""
    where = f" --root {path.parent}" if path.parent != Path("runs") else ""
    return f"; export the run first: openforge export {path.name} --to sft{where}, and name {path / 'exports' / 'sft'}"


def read_rows(file: Path, model: Path, limits: Limits, min_reward: float | None = None) -> Rows:
    """The rows of a file: conversations (.jsonl), or token rows (parquet).

    Args:
        file: see `WarmStartConfig.rows`.
        model: whose chat template renders conversations.
        limits: what fits it.
        min_reward: smallest reward of what is taken.

    Raises:
        ConfigError: the file cannot be read, a row is malformed, rewards are asked for that it has not, or no row is left.
    """
    if file.suffix == ".jsonl":
        rows = _read_text(file, HuggingFaceTokenizer(model), limits, min_reward)
    else:
        rows = _read_tokens(file, limits, min_reward)
    if not rows.samples:
        reasons = "; ".join(f"{n} x {reason}" for reason, n in rows.refused.most_common()) or "there are none"
        raise ConfigError(f"{SETTING}: {file} has no rows that can be learned from: {reasons}")
    return rows


class _Chat(msgspec.Struct):
    """A line of conversations. `tools` may be JSON text, as exports have it."""

    messages: list[Message]
    tools: str | list[Message] | None = None
    reward: float | None = None
    rollout_id: str = ""


def _read_text(file: Path, tokenizer: Tokenizer, limits: Limits, min_reward: float | None) -> Rows:
    rows, wanted = Rows(), _Wanted(min_reward)
    for number, line in enumerate(_lines(file), start=1):
        where = f"{SETTING}: {file}: line {number}"
        try:
            chat = msgspec.json.decode(line, type=_Chat)
            tools = msgspec.json.decode(chat.tools, type=list[Message]) if isinstance(chat.tools, str) else chat.tools
        except msgspec.DecodeError as e:
            raise ConfigError(f"{where}: not a conversation: {e}") from None
        if not all(isinstance(m.get("role"), str) for m in chat.messages):
            raise ConfigError(f"{where}: a message has no role")
        if not wanted(chat.reward, where):
            rows.refused[wanted.reason] += 1
            continue
        try:
            made = rows_of(chat.messages, tools, tokenizer)
        except Unaligned as e:
            rows.refused[str(e)] += 1
            continue
        for ids, mask in made:
            rows.add(ids, mask, chat.rollout_id or f"line {number}", limits, where)
    return rows


def _read_tokens(file: Path, limits: Limits, min_reward: float | None) -> Rows:
    rows, wanted = Rows(), _Wanted(min_reward)
    for number, row in enumerate(_table(file)):
        where = f"{SETTING}: row {number}"
        if not wanted(row.get("reward"), where):
            rows.refused[wanted.reason] += 1
            continue
        if "input_ids" in row:
            ids, mask = row["input_ids"], row["loss_mask"]
        else:
            ids, mask = [*row["prompts"], *row["responses"]], [0] * len(row["prompts"]) + row["response_mask"]
        rows.add(ids, mask, row.get("rollout_id") or f"row {number}", limits, where)
    return rows


class _Wanted:
    """Whether a reward is large enough."""

    def __init__(self, least: float | None) -> None:
        self._least = least
        self.reason = f"a reward below {least:g}" if least is not None else ""

    def __call__(self, reward: float | None, where: str) -> bool:
        if self._least is not None and reward is None:
            raise ConfigError(f"{where} has no reward; leave trainer.warm_start.min_reward away, or take an export")
        return self._least is None or reward is None or reward >= self._least


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as f:
            yield from (line for line in f if line.strip())
    except OSError as e:
        raise ConfigError(f"{SETTING}: {file}: {e.strerror}") from None


def _table(file: Path) -> Iterator[dict[str, Any]]:
    import pyarrow  # takes half a second, and only some rows need it
    import pyarrow.parquet

    try:
        parquet = pyarrow.parquet.ParquetFile(file)
        names = set(parquet.schema_arrow.names)
        columns: Sequence[str] | None = next((c for c in (_IDS, _EXPORTED) if set(c) <= names), None)
        if columns is None:
            raise ConfigError(f"{SETTING}: {file} has neither {' and '.join(_IDS)} nor {', '.join(_EXPORTED)}")
        more = [name for name in ("reward", "rollout_id") if name in names]
        for batch in parquet.iter_batches(columns=[*columns, *more]):
            yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as e:
        raise ConfigError(f"{SETTING}: {file}: {e}") from None


def _share(key: str, seed: int) -> float:
    """A number in [0, 1) that depends on nothing but a key and a seed."""
    digest = hashlib.blake2b(f"{seed}/{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
