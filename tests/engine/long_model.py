"""A tiny random Qwen3 with the real tokenizer and template of `real_tokenizer`, and a context long enough for coding agents."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedTokenizerFast

from tests.engine.real_tokenizer import TEMPLATE, tokenizer
from tests.engine.tiny_model import save_model

MAX_LENGTH = 40960


def make_long_model(out: Path, seed: int = 0) -> Path:
    """Writes model and tokenizer in Hugging Face format to `out`."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(), eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False,
        model_max_length=MAX_LENGTH,
    )  # fmt: skip
    fast.chat_template = TEMPLATE.read_text(encoding="utf-8")
    save_model(fast, out, MAX_LENGTH, seed)
    return out
