"""What the trainer reads of a model folder before it is loaded."""

from __future__ import annotations

from pathlib import Path

import msgspec

from shared.errors import ConfigError


class _ModelConfig(msgspec.Struct):
    vocab_size: int


def vocab_size(model: Path) -> int:
    """Number of token ids that a model folder's `config.json` allows.

    Raises:
        ConfigError: the file is missing or does not say.
    """
    try:
        return msgspec.json.decode((model / "config.json").read_bytes(), type=_ModelConfig).vocab_size
    except (OSError, msgspec.DecodeError) as e:
        raise ConfigError(f"engine.model: {model} is no model folder in Hugging Face format: {e}") from None
