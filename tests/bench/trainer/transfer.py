"""The file transport of weights by size, beside a plain copy of the same file.

A transfer is all that a push does with the file: the tensors are written, checksummed and announced on the trainer's side,
compared with the checksum and read into memory of its own on the engine's. The reference writes as many plain bytes once,
copies that file and reads the copy. What vLLM then does with the weights, and the probe, are in neither. Both take turns, and
the fastest of each counts. Every file is removed as soon as it was read.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from services.trainer.weights.pushed import WeightFiles
from tests.bench.trainer.report import Transfer

SIZES = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000]
SPARE = 4
"""Times the largest file that has to be free on the disk."""
_TENSORS = 8


def measure(sizes: Sequence[int], rounds: int, folder: Path, say: Callable[[str], None]) -> list[Transfer]:
    """All sizes, the smallest first."""
    found = []
    for size in sorted(sizes):
        taken = [(transfer(size, folder / "push"), plain_copy(size, folder / "plain")) for _ in range(rounds)]
        found.append(Transfer(bytes=size, push_s=min(t for t, _ in taken), copy_s=min(t for _, t in taken)))
        say(f"a file of {size} bytes: {found[-1].push_s:.4f} s, plain copy {found[-1].copy_s:.4f} s")
    return found


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
