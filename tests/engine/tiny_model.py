"""A tiny random Qwen3 with a byte-level tokenizer and a hermes tools template, for tests against a real engine.

``python -m tests.engine.tiny_model OUT [SEED]``. Made offline in seconds; it says nonsense, which is all that is asked of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

MAX_LENGTH = 512
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

TEMPLATE = r"""{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call one with <tool_call>
{"name": NAME, "arguments": OBJECT}
</tool_call><|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}<|im_start|>assistant
{{ m.content or '' }}{% for call in m.tool_calls or [] %}{% set f = call.function if call.function else call %}<tool_call>
{"name": "{{ f.name }}", "arguments": {{ f.arguments if f.arguments is string else f.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% elif m.role != 'system' or not (tools and loop.first) %}<|im_start|>{{ 'user' if m.role == 'tool' else m.role }}
{{ m.content if m.content is string else m.content | map(attribute='text') | join('') }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte (no merges), three special tokens, four of tool markup."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens([AddedToken(m, special=False, normalized=False) for m in MARKUP])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=MAX_LENGTH,
    )
    fast.chat_template = TEMPLATE
    return fast


def make_model(out: Path, seed: int = 0) -> None:
    """Writes model and tokenizer in Hugging Face format to `out`."""
    save_model(make_tokenizer(), out, MAX_LENGTH, seed)


def save_model(tokenizer: PreTrainedTokenizerFast, out: Path, length: int, seed: int) -> None:
    """Writes a tokenizer, and a random model for it that takes up to `length` tokens."""
    tokenizer.save_pretrained(out)
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=(len(tokenizer) + 63) // 64 * 64,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            max_position_embeddings=length,
            tie_word_embeddings=False,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            initializer_range=0.08,
        )
    ).float()
    model.save_pretrained(out, safe_serialization=True)


if __name__ == "__main__":
    make_model(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
