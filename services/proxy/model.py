"""What the proxy reads of the served model's folder, where it is on this machine: ids of tokens with a meaning."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

_MEDIA = ("image_token_id", "image_token_index", "video_token_id", "audio_token_id")


def placeholder_tokens(model: str) -> frozenset[int]:
    """Tokens that stand for media in a prompt; none where there is no such folder."""
    config = _read(Path(model) / "config.json")
    return frozenset(config[name] for name in _MEDIA if isinstance(config.get(name), int))


def stop_tokens(model: str) -> frozenset[int]:
    """Tokens that end a turn; none where there is no such folder."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        ids = _read(Path(model) / name).get("eos_token_id")
        found |= {ids} if isinstance(ids, int) else set(ids or ())
    return frozenset(found)


def warn_without(model: str) -> None:
    """Says what cannot be known where the folder is not on this machine. A call is recorded all the same."""
    if not (Path(model) / "config.json").is_file():
        log.warning(
            "engine.model %s has no config.json here: the tokens that end a turn, and those that stand for images, are not "
            "known; give the proxy the model's folder under that path", model,
        )  # fmt: skip


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
