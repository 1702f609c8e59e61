"""What the trainer reads of a model folder before it is loaded."""

from __future__ import annotations

from pathlib import Path

import msgspec

from shared.errors import ConfigError


class _TextConfig(msgspec.Struct):
    vocab_size: int = 0


class _ModelConfig(msgspec.Struct):
    vocab_size: int = 0
    tie_word_embeddings: bool = False
    text_config: _TextConfig = msgspec.field(default_factory=_TextConfig)  # of a model that sees, too


def vocab_size(model: Path) -> int:
    """Number of token ids that a model folder's `config.json` allows.

    Raises:
        ConfigError: the file is missing or does not say.
    """
    config = _read(model)
    size = config.vocab_size or config.text_config.vocab_size
    if not size:
        raise ConfigError(f"engine.model: {model / 'config.json'} has no vocab_size")
    return size


def is_tied(model: Path) -> bool:
    """Whether a model's output head is its input embeddings.

    Raises:
        ConfigError: the model folder has no `config.json` that can be read.
    """
    return _read(model).tie_word_embeddings


def _read(model: Path) -> _ModelConfig:
    try:
        return msgspec.json.decode((model / "config.json").read_bytes(), type=_ModelConfig)
    except (OSError, msgspec.DecodeError) as e:
        raise ConfigError(f"engine.model: {model} is no model folder in Hugging Face format: {e}") from None
