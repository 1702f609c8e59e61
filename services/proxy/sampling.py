"""What the engine is asked for: the harness's request with the session's sampling in place of its own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from services.proxy.dialects.base import Turn
from shared.config import Config

NULL = msgspec.Raw(b"null")

SAMPLING_FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "length_penalty", "thinking_token_budget", "logit_bias", "allowed_token_ids", "bad_words", "min_tokens", "ignore_eos",
    "use_beam_search", "max_tokens", "max_completion_tokens", "seed", "n", "stop", "stop_token_ids",
)  # fmt: skip
"""Request fields that are recorded as what the harness had asked for."""

_ENGINE_FIELDS = (
    "kv_transfer_params",
    "ec_transfer_params",
    "prompt_token_ids",
    "vllm_xargs",
    "request_id",
    "include_reasoning",
)
_KEPT = ("stop", "stop_token_ids")
_REMOVED = (*(f for f in SAMPLING_FIELDS if f not in _KEPT), *_ENGINE_FIELDS)


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session's sampling parameters; None leaves one to the configuration, then to the harness.

    Attributes:
        temperature: of sampling.
        top_p: nucleus; 1 samples from the whole distribution.
        max_tokens: most tokens of one reply.
        seed: makes the session's samples repeatable.
    """

    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """What is sent to the engine: the JSON body, and the sampling parameters in it."""

    body: bytes
    sampling: dict[str, Any]


def engine_request(turn: Turn, sampling: Sampling, config: Config, *, attempt: int, seq: int) -> EngineRequest:
    """Rewrites a turn for the engine.

    Token ids and log-probs are always asked for. Whatever changes the distribution that tokens are drawn from is removed, so
    that log-probs describe what was sampled; a harness's wish for it is on record. Fields of the engine's own internals are
    removed too: `kv_transfer_params` would replace the prompt.
    """
    sent: dict[str, Any] = {
        "temperature": config.proxy.temperature if sampling.temperature is None else sampling.temperature,
        "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
    }
    limits = [m for m in (turn.max_tokens, sampling.max_tokens, config.proxy.max_tokens or None) if m is not None]
    if limits:
        sent["max_tokens"] = min(limits)
    if sampling.seed is not None:
        sent["seed"] = call_seed(sampling.seed, attempt, seq)
    body: dict[str, Any] = {name: raw for name, raw in turn.body.items() if name not in _REMOVED}
    if body.get("top_logprobs", NULL) == NULL:  # without a number the engine sends no log-probs at all
        body["top_logprobs"] = 0
    body |= sent | {"model": config.engine.served_name, "return_token_ids": True, "logprobs": True}
    kept = {name: turn.requested[name] for name in _KEPT if name in turn.requested}
    return EngineRequest(msgspec.json.encode(body), sent | kept)


def call_seed(seed: int, attempt: int, seq: int) -> int:
    """A call's own seed, 31 bits: the same call of the same session draws the same, two calls do not."""
    mixed = hashlib.blake2b(f"{seed}/{attempt}/{seq}".encode(), digest_size=4).digest()
    return int.from_bytes(mixed, "big") & 0x7FFFFFFF
