"""What the file transport of weights takes, by size, beside a plain copy of the same file.

    python -m tests.bench.transfer [--bytes 1000000 ...] [--rounds 3] [--folder FOLDER]

Prints JSON, see `Figures`. A transfer is all that a push does with the file: the tensors are written, checksummed and announced
on the trainer's side, compared with the checksum and read into memory of its own on the engine's. The reference writes the same
tensors once as plain bytes, copies that file and reads the copy. What vLLM then does with the weights, and the probe, are in
neither. Both take turns, and the fastest round counts. Every file is removed as soon as it was read.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from services.trainer.weights.pushed import WeightFiles

SIZES = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000]
_TENSORS = 8
_SPARE = 4
"""Times the largest file that has to be free on the disk."""


class Figures(msgspec.Struct):
    """Seconds, by the file's size in bytes.

    Attributes:
        push_s: of a transfer.
        reference_s: of the plain copy.
        ratio: of the two.
    """

    push_s: dict[int, float] = {}
    reference_s: dict[int, float] = {}
    ratio: dict[int, float] = {}


def measure(sizes: Sequence[int], rounds: int, folder: Path) -> Figures:
    """Measures all sizes, the smallest first."""
    figures = Figures()
    for size in sorted(sizes):
        taken = [(transfer(size, folder / "push"), plain_copy(size, folder / "plain")) for _ in range(rounds)]
        push, plain = min(t for t, _ in taken), min(t for _, t in taken)
        figures.push_s[size], figures.reference_s[size], figures.ratio[size] = push, plain, push / plain
        _say(f"{size} bytes: {push:.4f} s, plain copy {plain:.4f} s", sys.stderr)
    return figures


def transfer(size: int, folder: Path) -> float:
    """Seconds that one transfer takes."""
    import torch
    from safetensors.torch import load_file, save_file

    from services.trainer.vllm.file_engine import confined, verified

    weights = {f"w{n}": torch.ones(size // _TENSORS // 4) for n in range(_TENSORS)}
    began = time.monotonic()
    files = WeightFiles(folder, 1)
    pushed = files.write(0, lambda file: save_file(weights, file))
    file = verified(confined(str(folder), str(files.path(pushed))), pushed.sha256)
    copies = {name: tensor.clone() for name, tensor in load_file(file).items()}
    took = time.monotonic() - began
    assert len(copies) == _TENSORS
    shutil.rmtree(folder)
    return took


def plain_copy(size: int, folder: Path) -> float:
    """Seconds that writing, copying and reading so many bytes takes."""
    content = bytes(size)
    folder.mkdir()
    began = time.monotonic()
    (folder / "a").write_bytes(content)
    shutil.copyfile(folder / "a", folder / "b")
    (folder / "b").read_bytes()
    took = time.monotonic() - began
    shutil.rmtree(folder)
    return took


def _say(words: str, where: TextIO) -> None:
    where.write(words + "\n")
    where.flush()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="What the file transport of weights takes, by size.")
    parser.add_argument("--bytes", type=int, nargs="*", default=SIZES, help="sizes of the files")
    parser.add_argument("--rounds", type=int, default=3, help="the fastest counts")
    parser.add_argument("--folder", type=Path, default=None, help="on the disk that is to be measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if shutil.disk_usage(folder).free < _SPARE * max(arguments.bytes):
            parser.exit(2, f"{folder}: less than {_SPARE} times the largest file is free; pass --folder or smaller --bytes\n")
        _say(msgspec.json.encode(measure(arguments.bytes, arguments.rounds, Path(folder))).decode(), sys.stdout)


if __name__ == "__main__":
    main()
