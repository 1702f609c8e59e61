"""The example's policy before any training: ``python -m examples.lookup.model OUT --seed N``.

A Llama of 0.3M parameters with the tokenizer of ``tokenizer/``. Its random start is shaped by hand so that a look-up circuit
(an induction head) forms within a few hundred steps of warm start instead of many thousands.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

TOKENIZER = Path(__file__).parent / "tokenizer"
HIDDEN, LAYERS, HEADS = 128, 2, 4
ROPE_THETA = 10000.0
INIT_STD = 0.05

PREVIOUS_TOKEN_HEADS = 2
FAST_FREQUENCIES = 5
BIAS = 4.4


def build(out: Path, seed: int, vocabulary: Path = TOKENIZER) -> None:
    """Writes a model folder in Hugging Face format, float32; the weights are drawn from `seed`.

    Args:
        out: the folder.
        seed: of the weights.
        vocabulary: folder of its tokenizer.
    """
    disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(vocabulary)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(_config(tokenizer)).float()
    shape_attention(model)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(out)
    shutil.copytree(vocabulary, out, dirs_exist_ok=True)


@torch.no_grad()
def shape_attention(model: LlamaForCausalLM) -> None:
    """Moves random weights near an induction circuit.

    `PREVIOUS_TOKEN_HEADS` heads of the first layer look at the previous token; in all heads keys equal queries and the output
    is the transposed value, so that a head attends to tokens like the current one and copies what it sees.
    """
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.k_proj.weight.copy_(attention.q_proj.weight)
        attention.o_proj.weight.copy_(attention.v_proj.weight.T)
    first = model.model.layers[0].self_attn
    query, key = previous_token_biases(HIDDEN // HEADS)
    for head in range(PREVIOUS_TOKEN_HEADS):
        own = slice(head * len(query), (head + 1) * len(query))
        first.q_proj.bias[own], first.k_proj.bias[own] = query, key


def previous_token_biases(head_dim: int) -> tuple[Tensor, Tensor]:
    """Biases of query and key, each (head_dim,), whose product after RoPE is largest at a distance of one token.

    They point the same way in the fastest frequencies but for the angle of one step, by which the key is turned ahead.
    """
    half = head_dim // 2
    angle = ROPE_THETA ** (-torch.arange(half).float() / half)
    size = BIAS * (torch.arange(half) < FAST_FREQUENCIES).float()
    return torch.cat([size, torch.zeros(half)]), torch.cat([size * angle.cos(), size * angle.sin()])


def _config(tokenizer: AutoTokenizer) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=-(-len(tokenizer) // 64) * 64, hidden_size=HIDDEN, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=1024, rope_theta=ROPE_THETA,
        attention_bias=True, tie_word_embeddings=True, initializer_range=INIT_STD,
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write the example's untrained model.")
    parser.add_argument("out", type=Path, metavar="OUT", help="model folder to write")
    parser.add_argument("--seed", type=int, default=0, help="of the weights (default: 0)")
    args = parser.parse_args()
    build(args.out, args.seed)


if __name__ == "__main__":
    main()
