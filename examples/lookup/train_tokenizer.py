"""Made the files in ``tokenizer/``: ``python -m examples.lookup.train_tokenizer OUT``.

A byte-level BPE trained on what the teacher says, so that an episode is short: the JSON head and tail of a tool call, a name
with its blank and a two-digit number are one token each. Which merges come out depends on the library's version, so the result
is kept beside this script. The chat template there is written by hand.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from examples.lookup.family import FILES, KEYS, TARGETS, demonstrate, make_task
from examples.lookup.words import CURRENT_DATE, CURRENT_FOLDER, NO_OUTPUT, SUBMIT

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOOL_CALL_TAGS = ["<tool_call>", "</tool_call>"]
PHRASES = [SUBMIT, NO_OUTPUT, CURRENT_DATE, CURRENT_FOLDER]  # of harnesses; one token each
VOCABULARY = 640

# Merges never cross these pieces: the head and tail of a bash call, words with their blank, numbers, line ends.
_PIECES = r"""\{"name": "bash", "arguments": \{"command": "|"\}\}|\.txt| ?[A-Za-z]+| ?\d{1,2}|\n| | ?[^\sA-Za-z0-9]+"""


def corpus(rng: random.Random) -> Iterator[str]:
    """Texts that hold every piece of an episode often enough to be merged."""
    for _ in range(3000):
        for message in demonstrate(make_task(rng, "train"), rng).messages:
            yield f"{message['role']}\n{message['content']}"
            for call in message.get("tool_calls", []):
                yield '\n{"name": "bash", "arguments": {"command": "' + call["function"]["arguments"]["command"] + '"}}\n'
    yield from ["system\ntools: bash"] * 50
    yield from (f"echo {number} > " * 20 for number in range(100))
    yield from (f" {word}" * 50 for word in FILES + TARGETS + KEYS)


def train(texts: Iterable[str], phrases: Sequence[str] = tuple(PHRASES)) -> PreTrainedTokenizerFast:
    """A new tokenizer.

    Args:
        texts: that it is trained on.
        phrases: that are one token each.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_PIECES), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, min_frequency=2, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(texts, trainer)
    # No special tokens: the engine's tool parser has to see them in the decoded text.
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in (*TOOL_CALL_TAGS, *phrases)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )  # fmt: skip


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Train the example's tokenizer anew.")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write to")
    train(corpus(random.Random(0))).save_pretrained(parser.parse_args().out)


if __name__ == "__main__":
    main()
