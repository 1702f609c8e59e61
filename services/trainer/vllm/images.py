"""Vision models in a vLLM without torchvision, which does not load beside the CPU build of torch.

vLLM imports transformers' torchvision image processors by name, though it only needs what their PIL twins have, too. Where
torchvision is missing, the twins stand in for them. Videos stay out: their processors have no such twin.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any, ClassVar

_FAMILY = "transformers.models.qwen2_vl"
_AUTO = "transformers.models.auto.image_processing_auto"
_VIDEO = "transformers.video_processing_utils"


def use_pil_processors() -> None:
    """Lets Qwen's vision models be imported and fed without torchvision. Does nothing where that is installed."""
    name = f"{_FAMILY}.image_processing_qwen2_vl"
    if importlib.util.find_spec("torchvision") is not None or name in sys.modules:
        return
    twin = importlib.import_module(f"{_FAMILY}.image_processing_pil_qwen2_vl")
    stand_in = ModuleType(name, "The PIL twin of a module that needs torchvision.")
    stand_in.__dict__.update({key: value for key, value in vars(twin).items() if not key.startswith("__")})
    stand_in.__dict__["Qwen2VLImageProcessor"] = twin.Qwen2VLImageProcessorPil
    sys.modules[name] = stand_in
    # The package's own names for these are placeholders that only say what is missing; the modules' are the real classes.
    transformers = importlib.import_module("transformers")
    transformers.AutoImageProcessor = importlib.import_module(_AUTO).AutoImageProcessor  # type: ignore[attr-defined]
    transformers.BaseVideoProcessor = importlib.import_module(_VIDEO).BaseVideoProcessor  # type: ignore[attr-defined]
    _stand_in_for_videos(importlib.import_module(_VIDEO).BaseVideoProcessor)


def _stand_in_for_videos(base: type[Any]) -> None:
    """A processor of images insists on one of videos beside it; this one is only asked how large the smallest video is."""
    from transformers.models.auto.video_processing_auto import AutoVideoProcessor

    class NoVideos(base):  # type: ignore[misc]  # transformers gives no types
        patch_size, temporal_patch_size, merge_size = 14, 2, 2
        min_frames, max_frames, fps = 2, 2, 2
        size: ClassVar = {"shortest_edge": 4096, "longest_edge": 4096}

        def __init__(self) -> None: ...

    AutoVideoProcessor.from_pretrained = classmethod(lambda *_, **__: NoVideos())
