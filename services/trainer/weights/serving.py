"""The copy of a model that the engine serves: ``python -m services.trainer.weights.serving SRC DST``.

Many small models use their input embeddings as output head too ("tied"). vLLM's reload leaves such a head stale, with no error.
So the served copy gets a head of its own, and every push writes both. Weights are linked, not copied; only the head is new.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.errors import ConfigError, ForgeError

HEAD = "lm_head.weight"
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight")
"""How the names of input embeddings end."""
_INDEX = "model.safetensors.index.json"
_LENGTH = struct.Struct("<Q")

Header = dict[str, dict[str, Any]]
"""Of a safetensors file: tensor name -> `dtype`, `shape`, `data_offsets` (bytes, relative to the end of the header)."""


def make_serving_copy(source: Path, target: Path) -> bool:
    """Makes `target` a folder that vLLM can serve and the trainer can push to. Returns whether a head was added.

    Doing it again brings `target` up to date.

    Args:
        source: model folder in Hugging Face format, weights as safetensors.
        target: folder for the copy; it must not be `source`.

    Raises:
        ConfigError: `source` is no such folder, or its embeddings cannot be told from its other weights.
    """
    source = source.resolve()
    config = _read_json(source / "config.json")
    shards = {file: _header(file) for file in sorted(source.glob("*.safetensors"))}
    if not shards:
        raise ConfigError(f"{source}: no *.safetensors here; a model folder in Hugging Face format is needed")
    names = {name for header in shards.values() for name in header}
    tied = bool(config.get("tie_word_embeddings", HEAD not in names))
    ignore = shutil.ignore_patterns("config.json", _INDEX, "*.safetensors") if tied else None
    shutil.copytree(source, target, copy_function=_link, ignore=ignore, dirs_exist_ok=True)
    if tied:
        _write_untied(config, shards, target)
    return tied


def _write_untied(config: dict[str, Any], shards: dict[Path, Header], target: Path) -> None:
    """Links the shards under numbered names, adds one with the head, and writes the index and the configuration."""
    _write_json(target / "config.json", {**config, "tie_word_embeddings": False})
    where: dict[str, str] = {}
    for i, (file, header) in enumerate(shards.items(), 1):
        shard = f"model-{i:05}-of-{len(shards) + 1:05}.safetensors"
        _link(str(file), str(target / shard))
        where |= dict.fromkeys(header, shard)
    head = f"model-{len(shards) + 1:05}-of-{len(shards) + 1:05}.safetensors"
    size = _write_head(*_embedding(shards), target / head)
    where[HEAD] = head
    _write_json(target / _INDEX, {"metadata": {"total_size": size}, "weight_map": where})


def _embedding(shards: dict[Path, Header]) -> tuple[Path, dict[str, Any]]:
    """The file that holds the input embeddings, and their entry in its header."""
    found = [(file, header[n]) for file, header in shards.items() for n in header if n.endswith(EMBEDDINGS)]
    if len(found) != 1:
        raise ConfigError(f"{next(iter(shards)).parent}: {len(found)} tensors are named like input embeddings, one is needed")
    return found[0]


def _write_head(file: Path, entry: dict[str, Any], target: Path) -> int:
    """Writes a tensor of `file` to a file of its own, as the head. Returns its size in bytes."""
    begin, end = entry["data_offsets"]
    with file.open("rb") as f:
        (length,) = _LENGTH.unpack(f.read(_LENGTH.size))
        f.seek(_LENGTH.size + length + begin)
        data = f.read(end - begin)
    header = json.dumps({HEAD: {**entry, "data_offsets": [0, len(data)]}, "__metadata__": {"format": "pt"}}).encode()
    header += b" " * (-len(header) % 8)  # the format asks for tensors that begin at a multiple of 8
    target.write_bytes(_LENGTH.pack(len(header)) + header + data)
    return len(data)


def _header(file: Path) -> Header:
    with file.open("rb") as f:
        (length,) = _LENGTH.unpack(f.read(_LENGTH.size))
        header: Header = json.loads(f.read(length))
    header.pop("__metadata__", None)
    return header


def _link(source: str, target: str) -> None:
    Path(target).unlink(missing_ok=True)
    os.symlink(source, target)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError) as e:
        raise ConfigError(f"{file}: {e}; a model folder in Hugging Face format is needed") from None
    return content


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Command line: `python -m services.trainer.weights.serving SRC DST`."""
    parser = argparse.ArgumentParser(description="Makes the copy of a model that the engine serves.")
    parser.add_argument("source", type=Path, help="model folder in Hugging Face format")
    parser.add_argument("target", type=Path, help="folder for the copy")
    arguments = parser.parse_args(argv)
    try:
        make_serving_copy(arguments.source, arguments.target)
    except ForgeError as e:
        parser.exit(2, f"{e}\n")


if __name__ == "__main__":
    main()
