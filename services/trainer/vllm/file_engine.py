"""vLLM weight-transfer backend `file`: loads a safetensors file into the running model, without a restart.

Runs inside vLLM. The trainer names the file; only files under the folder in `OPENFORGE_WEIGHTS_ROOT` are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor
from vllm.distributed.weight_transfer.base import WeightTransferEngine, WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from services.trainer.vllm.adapted import adapted
from services.trainer.vllm.command import WEIGHTS_ROOT
from services.trainer.vllm.experts import packed_again
from services.trainer.weights.pushed import checksum


@dataclass
class FileInit(WeightTransferInitInfo):  # type: ignore[misc]  # vLLM is not followed by the type checker
    """`init_info`: nothing to say; whoever starts vLLM decides where files may come from."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):  # type: ignore[misc]
    """`update_info`: a safetensors file under the root, all weights under their checkpoint names, and its SHA-256.

    With a `base`, such a file as well, the file at `path` has adapters that are to be added to the weights in it.
    """

    path: str
    sha256: str
    base: str = ""
    base_sha256: str = ""


def confined(root: str, path: str) -> Path:
    """`path` resolved, if it is a file under the folder `root`.

    Raises:
        ValueError: it is not, or there is no root.
    """
    if not root:
        raise ValueError(f"set {WEIGHTS_ROOT} in the environment of vLLM to the folder that weight files may come from")
    resolved = Path(path).resolve()
    if not resolved.is_relative_to(Path(root).resolve()) or not resolved.is_file():
        raise ValueError(f"{path!r} is no file under {WEIGHTS_ROOT}")
    return resolved


def verified(file: Path, sha256: str) -> Path:
    """`file`, if its content has the checksum.

    Raises:
        ValueError: it has another.
    """
    if (found := checksum(file)) != sha256:
        raise ValueError(f"{file} has the checksum {found}, not {sha256}: it is damaged, or not whole; nothing was loaded")
    return file


class FileWeightTransferEngine(WeightTransferEngine):  # type: ignore[misc]
    """Reads all weights from one file per update, or from two where one has what is the same in all of them."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate
    _known: tuple[Path, str, int] | None = None
    """A base whose checksum was compared."""

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Nothing to connect."""

    def start_weight_update(self) -> None:
        """Nothing yet: the model is touched only once the file has been read."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Loads a file. (The base class would then synchronize an accelerator, which a CPU build of torch does not have.)"""
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: FileUpdate) -> None:
        """Loads a file. The model stays usable whatever happens, but after an error its weights may be mixed.

        Raises:
            ValueError: a file is not under the root, or has another checksum, or adapters do not fit.
        """
        weights = self._weights(update_info)
        with packed_again(self.model):
            initialize_layerwise_reload(self.model)
            try:
                self.model.load_weights(weights)
            finally:
                finalize_layerwise_reload(self.model, self.model_config)

    def _weights(self, update: FileUpdate) -> Iterable[tuple[str, Tensor]]:
        """All weights; those without adapters are read one by one."""
        root = os.environ.get(WEIGHTS_ROOT, "")
        file = verified(confined(root, update.path), update.sha256)
        if not update.base:
            return list(load_file(file).items())
        base = confined(root, update.base)
        if self._known != (known := (base, update.base_sha256, base.stat().st_mtime_ns)):
            verified(base, update.base_sha256)
            self._known = known
        return adapted(base, load_file(file))

    def finish_weight_update(self) -> None:
        """Nothing left to do."""

    def shutdown(self) -> None:
        """Nothing is held."""
