"""Model calls and the recording sessions they belong to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shared.events.base import Count, Duration, Hex, Id, Number, RolloutMessage, Size

Role = Literal["main", "sub", "summary", "aux", "judge"]
"""`main` and `sub` agents are trained, and the summaries by which they compact their history, since they go on from those;
auxiliary calls (titles, reviews, quota probes) and judges are only recorded."""


_NULL = msgspec.Raw(b"null")


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """An image, say, of a request. Its bytes are a blob of the store; in the message stands ``sha256:<hex>``.

    Attributes:
        sha256: hex, of its bytes.
        start: place of its first placeholder token in the prompt; -1 where it is not known.
        length: number of its placeholder tokens.
    """

    sha256: Hex
    start: Annotated[int, Meta(ge=-1)] = -1
    length: Size = 0


class CallRecorded(RolloutMessage, frozen=True, kw_only=True, tag="call.recorded"):
    """One model call, token for token. Published before the last byte of the reply reaches the harness.

    The prompt is stored as a delta: ``prompt = full(parent)[:parent_len] + prompt_delta`` where
    ``full(call) = prompt(call) + completion(call)``; roots have ``parent_len == 0``.

    Attributes:
        session_id: recording session (one per attempt).
        seq: arrival order at the proxy, from 1, unique within the session.
        api: dialect that the harness spoke (`openai.chat`, `openai.responses`, `anthropic.messages`, `gemini`).
        model: name that the harness asked for.
        role: `main`, `sub`, `summary`, `aux` or `judge`, by the rules of the harness's adapter.
        thread: id by which the harness tells its agents apart; empty for the main one.
        parent_seq: call whose full ids are a strict prefix of this prompt, None for a root.
        parent_status: `root`, `extends` or `unresolved`.
        parent_len: tokens taken over from the parent.
        prompt_len: tokens of the whole prompt.
        prompt_delta: packed uint32, the tokens that follow the parent's.
        prompt_digest: blake2b-128 hex over the whole prompt as packed uint32.
        spliced: the prompt was sent as ids: the parent's own, and a rendered delta.
        fork: why the prompt does not extend the call that the harness went on from; empty where it does, or there is none.
        messages: OpenAI chat messages of the request that follow those of `messages_from` and its reply; all for None.
        messages_from: call whose conversation the request goes on with, as far as its messages tell.
        media: images and the like among the new ids, in their order: those of `messages`, and earlier ones that stand there
            because the prompt does not go on from where the messages do.
        stray_media: a placeholder of media stands among the new ids, or was sampled, for which there is no medium; nobody could
            tell it from one, so that neither this call nor those that go on from it can be trained on.
        experts: sha256 hex of a blob of the store with the experts that the engine chose for the first tokens of prompt and
            reply, as a file of numpy's (tokens, layers, k); empty where the engine did not say.
        tools: the tools, once for each list of them in a session; else null.
        tools_digest: blake2b-128 hex over the tools as sent to the engine; empty without any.
        start: hex digest of what stands before the messages: the tools, the arguments of the chat template.
        path: hex digest of the conversation, this reply included (`services.proxy.paths`).
        completion: packed uint32, sampled ids, a sampled stop token included.
        logprobs: packed float32, one per sampled id, natural log.
        finish_reason: the engine's.
        stop_id: token that ended the reply; None where it was cut short, also by a stop string.
        sampling: parameters that were sent to the engine.
        requested: parameters that the harness had asked for.
        weight_version_start: served when the call began.
        weight_version_end: served when it ended.
        engine: engine id (its base URL).
        constrained: sampled under a grammar or a forced tool.
        replay_gap: largest difference (nats) between the log-probs of a constrained reply and those that the same weights
            give it without the grammar; None where it was not measured.
        delivery: `sent` (whole, on its way), `cut` (the client left first).
        streamed: the harness asked for a stream.
        latency_s: seconds from arrival to the last upstream byte.
        reply: the assistant message as the harness saw it.
        tokens: whether ids are on record; a teacher gives none, and its calls cannot be trained on.
    """

    session_id: Id
    seq: Number
    api: str
    model: str
    role: Role = "main"
    thread: str = ""
    parent_seq: Number | None = None
    parent_status: Literal["root", "extends", "unresolved"] = "root"
    parent_len: Size = 0
    prompt_len: Size
    prompt_delta: bytes
    prompt_digest: Hex
    spliced: bool = False
    fork: str = ""
    messages: list[msgspec.Raw] = []
    messages_from: Number | None = None
    media: list[Media] = []
    stray_media: bool = False
    experts: Hex = ""
    tools: msgspec.Raw = _NULL
    tools_digest: Hex = ""
    start: Hex = ""
    path: Hex = ""
    completion: bytes
    logprobs: bytes
    finish_reason: str | None
    stop_id: Size | None = None
    sampling: dict[str, Any] = {}
    requested: dict[str, Any] = {}
    weight_version_start: Size
    weight_version_end: Size
    engine: str = ""
    constrained: bool = False
    replay_gap: float | None = None
    delivery: Literal["sent", "cut"] = "sent"
    streamed: bool = False
    latency_s: Duration = 0.0
    reply: dict[str, Any] = {}
    tokens: bool = True

    @property
    def event_id(self) -> str:
        return f"call-{self.session_id}-{self.seq}"


class SessionSealed(RolloutMessage, frozen=True, kw_only=True, tag="session.sealed"):
    """The rollout's secret was revoked; no further call can come.

    Attributes:
        session_id: recording session.
        calls: numbers that were given out, 1..calls.
        errored: numbers whose call ended in an error with nothing sampled that could be used; they have no record.
        cut: numbers that are recorded but whose reply did not reach the client whole.
        lost: numbers without a durable record; a session with any is not trained on.
    """

    session_id: Id
    calls: Count
    errored: list[Number] = []
    cut: list[Number] = []
    lost: list[Number] = []

    @property
    def event_id(self) -> str:
        return f"sealed-{self.session_id}"
