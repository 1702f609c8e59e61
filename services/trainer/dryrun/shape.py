"""A model's shape, from its folder: counted without memory for a single weight."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from services.trainer.verl import cpu_platform  # noqa: F401 - before all else of veRL: it sets the platform

# isort: split
import torch
from transformers import AutoConfig, PretrainedConfig
from verl.utils.model import get_hf_auto_model_class

from shared.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Shape:
    """A model.

    Attributes:
        family: `model_type` of its config.json.
        parameters: all of them.
        expert_parameters: of them, those of experts.
        layers, hidden, heads, kv_heads, vocabulary: of its language model.
        experts: of a layer; 0 without any.
        max_length: tokens that it was made for.
    """

    family: str
    parameters: int
    expert_parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int
    experts: int
    max_length: int


def read_shape(model: Path) -> Shape:
    """The shape of the model in a folder.

    Raises:
        ConfigError: transformers cannot read the folder, or does not know the model.
    """
    if not (model / "config.json").is_file():
        raise ConfigError(f"engine.model {model}: not a model folder (it has no config.json)")
    try:
        config = AutoConfig.from_pretrained(model, local_files_only=True)
        with torch.device("meta"):
            built = get_hf_auto_model_class(config).from_config(config)
    except (OSError, ValueError, KeyError, ImportError, AttributeError) as e:
        raise ConfigError(f"engine.model {model}: transformers cannot make this model: {e}") from e
    sizes = {name: p.numel() for name, p in built.named_parameters()}
    return _shape(config, sum(sizes.values()), sum(n for name, n in sizes.items() if ".experts." in name))


def _shape(config: PretrainedConfig, parameters: int, expert_parameters: int) -> Shape:
    text = config.get_text_config()
    experts = getattr(text, "num_experts", None) or getattr(text, "num_local_experts", None) or 0
    return Shape(
        family=config.model_type, parameters=parameters, expert_parameters=expert_parameters, layers=text.num_hidden_layers,
        hidden=text.hidden_size, heads=text.num_attention_heads,
        kv_heads=getattr(text, "num_key_value_heads", text.num_attention_heads), vocabulary=text.vocab_size, experts=experts,
        max_length=text.max_position_embeddings,
    )  # fmt: skip
