"""What the engine is asked for: the harness's request with the session's sampling in place of its own."""

from __future__ import annotations

import hashlib
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

ENGINE_FIELDS = (
    "kv_transfer_params",
    "ec_transfer_params",
    "prompt_token_ids",
    "vllm_xargs",
    "request_id",
    "include_reasoning",
    "stream_options",
    "stream",
)
"""Request fields of the engine's own internals, or that the proxy sets itself."""
_encode = msgspec.json.Encoder().encode
_KEPT = ("stop", "stop_token_ids")
_REMOVED = frozenset((*SAMPLING_FIELDS, *ENGINE_FIELDS)).difference(_KEPT)


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


class EngineRequest(msgspec.Struct, frozen=True):
    """What is sent to the engine.

    Attributes:
        fields: of the JSON body, without what the prompt is.
        sampling: the sampling parameters among them.
        limit: most tokens of the reply; None leaves it to the served length.
    """

    fields: dict[str, Any]
    sampling: dict[str, Any]
    limit: int | None

    def body(self, messages: list[msgspec.Raw], spliced: bytes, left: int, *, stream: bool, usage: bool) -> bytes:
        """The JSON body.

        Args:
            messages: of the turn; they are left out when ids are sent.
            spliced: token ids to send, as a JSON array; empty to send the messages.
            left: tokens that the served length can leave for a reply, at most. A limit beyond it is left out, because the
                engine refuses what it cannot promise; it then samples up to the served length.
            stream: ask for events.
            usage: and for the usage at their end.
        """
        body = self.fields | {"messages": [] if spliced else messages}
        if spliced:
            body["kv_transfer_params"] = {"prompt_token_ids": msgspec.Raw(spliced)}
        if self.limit is not None and self.limit < left:
            body["max_tokens"] = self.limit
        if stream:
            body["stream"] = True
            if usage:
                body["stream_options"] = {"include_usage": True}
        return _encode(body)

    def recorded(self, left: int) -> dict[str, Any]:
        """The sampling parameters, with the limit that held when the served length left so many tokens for the reply."""
        return self.sampling if self.limit is None else self.sampling | {"max_tokens": min(self.limit, left)}


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
    if sampling.seed is not None:
        sent["seed"] = call_seed(sampling.seed, attempt, seq)
    fields: dict[str, Any] = {name: raw for name, raw in turn.fields.items() if name not in _REMOVED}
    if fields.get("top_logprobs", NULL) == NULL:  # without a number the engine sends no log-probs at all
        fields["top_logprobs"] = 0
    fields.update(sent, model=config.engine.served_name, return_token_ids=True, logprobs=True)
    for name in _KEPT:
        if name in turn.requested:
            sent[name] = turn.requested[name]
    limits = [m for m in (turn.max_tokens, sampling.max_tokens, config.proxy.max_tokens or None) if m is not None]
    return EngineRequest(fields, sent, min(limits, default=None))


def call_seed(seed: int, attempt: int, seq: int) -> int:
    """A call's own seed, 31 bits: the same call of the same session draws the same, two calls do not."""
    mixed = hashlib.blake2b(f"{seed}/{attempt}/{seq}".encode(), digest_size=4).digest()
    return int.from_bytes(mixed, "big") & 0x7FFFFFFF
