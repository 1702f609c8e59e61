"""Images for models of Qwen's vision families: from their bytes to what veRL hands to the model (`multi_modal_inputs`).

Pixels are cut by transformers' PIL processors, since torchvision does not load beside the CPU build of torch. An engine with
torchvision resizes an image by up to one grey level differently.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from services.trainer.batch.samples import Sample
from shared.errors import ConfigError, FidelityError

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
"""`model_type` of the models whose images are understood."""


_PLAIN = -1
"""No token: stands for one that says nothing of places."""


class _ModelConfig(msgspec.Struct):
    model_type: str = ""
    vision_config: dict[str, Any] | None = None
    image_token_id: int = -1
    video_token_id: int = -1
    vision_start_token_id: int = -1


class Vision:
    """What a model folder says about images.

    Args:
        model: model folder of one of `FAMILIES`.
    """

    def __init__(self, model: Path) -> None:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        self._config = _read(model)
        self._processor = Qwen2VLImageProcessorPil.from_pretrained(model)
        self._rope_index = _rope_index(self._config.model_type)

    def inputs(self, sample: Sample) -> dict[str, Tensor] | None:
        """`pixel_values` (patches, values of one) float32 and `image_grid_thw` (images, 3) int64; None without an image.

        Raises:
            FidelityError: the images are not where the sample's placeholder tokens are.
        """
        if len(sample.pictures) != len(sample.media):
            raise FidelityError(f"a row has {len(sample.media)} images, of which {len(sample.pictures)} are at hand")
        grids: list[list[int]] = []
        pixels = []
        for picture in sample.pictures:
            cut = self._processor(images=[_opened(picture)], return_tensors="pt")
            pixels.append(cut["pixel_values"])
            grids += cut["image_grid_thw"].tolist()
        self._check_places(sample, grids)
        if not pixels:
            return None
        return {"pixel_values": torch.cat(pixels), "image_grid_thw": torch.tensor(grids)}

    def positions(self, ids: Sequence[int], inputs: dict[str, Tensor] | None) -> Tensor:
        """Position ids (4, L) int64 of a sequence: its plain ones, and those in time, height and width."""
        plain = torch.arange(len(ids))
        if inputs is None:
            return plain.expand(4, -1)
        processor = SimpleNamespace(
            image_processor=self._processor, image_token_id=self._config.image_token_id,
            video_token_id=self._config.video_token_id, vision_start_token_id=self._config.vision_start_token_id,
        )  # fmt: skip
        shown = self._without_stray_starts(torch.tensor(ids))
        places: Tensor = self._rope_index(processor, shown, image_grid_thw=inputs["image_grid_thw"])
        return torch.cat([plain[None], places])

    def _without_stray_starts(self, ids: Tensor) -> Tensor:
        """Ids in which only images begin as images do: a model may sample that token, too, and veRL takes each for an image."""
        begins = torch.zeros_like(ids, dtype=torch.bool)
        begins[:-1] = ids[1:] == self._config.image_token_id
        return ids.masked_fill((ids == self._config.vision_start_token_id) & ~begins, _PLAIN)

    def _check_places(self, sample: Sample, grids: Sequence[Sequence[int]]) -> None:
        merged = self._processor.merge_size**2
        wanted = [(m.start, t * h * w // merged) for m, (t, h, w) in zip(sample.media, grids, strict=True)]
        found = _runs(sample.ids, self._config.image_token_id)
        if wanted != found:
            raise FidelityError(f"a row has placeholders of images at (start, length) {found}, but images for {wanted}")


def is_vision(model: Path) -> bool:
    """Whether a model folder holds a model that sees.

    Raises:
        ConfigError: it does, but its images are not understood.
    """
    config = _read(model)
    if config.vision_config is not None and config.model_type not in FAMILIES:
        raise ConfigError(f"engine.model: {model} sees, but only images of {', '.join(FAMILIES)} are understood")
    return config.vision_config is not None


def _read(model: Path) -> _ModelConfig:
    try:
        return msgspec.json.decode((model / "config.json").read_bytes(), type=_ModelConfig)
    except (OSError, msgspec.DecodeError) as e:
        raise ConfigError(f"engine.model: {model} is no model folder in Hugging Face format: {e}") from None


def _rope_index(family: str) -> Callable[..., Tensor]:
    """veRL's own function for the positions of a family's tokens."""
    from verl.models.transformers import qwen2_vl, qwen3_vl

    module: Any = qwen3_vl if family.startswith("qwen3") else qwen2_vl
    function: Callable[..., Tensor] = module.get_rope_index
    return function


def _opened(picture: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(picture)).convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as e:
        raise FidelityError(f"an image of a row cannot be read: {e}") from e


def _runs(ids: Sequence[int], token: int) -> list[tuple[int, int]]:
    """Start and length of each run of a token."""
    starts = [i for i, t in enumerate(ids) if t == token and (i == 0 or ids[i - 1] != token)]
    ends = [i + 1 for i, t in enumerate(ids) if t == token and (i + 1 == len(ids) or ids[i + 1] != token)]
    return [(start, end - start) for start, end in zip(starts, ends, strict=True)]
