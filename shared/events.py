"""Every message on the bus. Events are past tense, commands imperative; on the wire they are JSON with a `type` tag.

New fields keep the version (give them a default); a changed meaning is a new version of the subject.
Arrays of token ids, masks and log-probabilities are packed (`shared.packing`) and travel as base64.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec

Purpose = Literal["train", "eval"]
"""`train` rollouts are learned from; `eval` ones are only scored."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every message has.

    Attributes:
        run_id: the run it belongs to.
        at: unix time in seconds at which it was made.
    """

    run_id: str
    at: float = msgspec.field(default_factory=time.time)

    @property
    def key(self) -> str:
        """Last token of the subject: which rollout, group, version or task it is about."""
        raise NotImplementedError

    @property
    def event_id(self) -> str:
        """Deterministic id: the bus keeps one message of an id, however often it is published."""
        raise NotImplementedError


class RolloutMessage(Message, frozen=True, kw_only=True):
    """A message about one attempt of one rollout.

    Attributes:
        rollout_id: the rollout; all its attempts share it.
        attempt: counts from 1.
        group_id: the group whose baseline it shares.
        purpose: train or eval.
    """

    rollout_id: str
    attempt: int = 1
    group_id: str
    purpose: Purpose = "train"

    @property
    def key(self) -> str:
        return self.rollout_id

    @property
    def event_id(self) -> str:
        tag = str(type(self).__struct_config__.tag).replace(".", "-")
        return f"{tag}-{self.rollout_id}-a{self.attempt}"


# --- run ---------------------------------------------------------------------------------------------------------------


class RunStart(Message, frozen=True, kw_only=True, tag="run.start"):
    """Asks the trainer to carry the configured run to its end."""

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return f"run-start-{self.run_id}"


class RunStaged(Message, frozen=True, kw_only=True, tag="run.staged"):
    """The trainer entered a stage of the run (`warm start`, `evaluate`, `train`, ...), with a text for people.

    Attributes:
        stage: short name.
        detail: what is being done, for a person.
        done: units of work done in this stage.
        total: units of work of this stage, 0 where unknown.
    """

    stage: str
    detail: str = ""
    done: int = 0
    total: int = 0

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return f"run-staged-{self.run_id}-{self.stage}-{self.done}-{self.at}"


class RunStepped(Message, frozen=True, kw_only=True, tag="run.stepped"):
    """One training step ended, its weights are being served.

    Attributes:
        step: counts from 1.
        version: the weight version that the step made.
        metrics: the step's metrics under veRL's names (`critic/rewards/mean`, `actor/grad_norm`, ...).
    """

    step: int
    version: int
    metrics: dict[str, float]

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return f"run-stepped-{self.run_id}-{self.step}"


class RunEvaluated(Message, frozen=True, kw_only=True, tag="run.evaluated"):
    """Success on the held-out tasks was measured.

    Attributes:
        label: `before` or `after`.
        success: share of episodes with reward 1, in [0, 1].
        episodes: number of episodes that it rests on.
        version: weight version that was served.
    """

    label: str
    success: float
    episodes: int
    version: int

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return f"run-evaluated-{self.run_id}-{self.label}"


class RunFinished(Message, frozen=True, kw_only=True, tag="run.finished"):
    """The run ended.

    Attributes:
        ok: it reached its end.
        error: one line for a person when it did not.
        summary: the content of `summary.json` as far as known.
    """

    ok: bool
    error: str = ""
    summary: dict[str, Any] = {}

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return f"run-finished-{self.run_id}"


# --- rollouts ----------------------------------------------------------------------------------------------------------


class RolloutStart(RolloutMessage, frozen=True, kw_only=True, tag="rollout.start"):
    """Asks the orchestrator to run one rollout.

    Attributes:
        group_size: rollouts in the group.
        task_dir: absolute path of the Harbor-format task folder.
        harness: name of the harness adapter.
        sampling: sampling parameters that override the harness's own (`temperature`, `top_p`, `max_tokens`, `seed`).
        timeout_s: wall-clock limit of the agent in seconds; None takes the task's, then the configured one.
    """

    group_size: int
    task_dir: str
    harness: str
    sampling: dict[str, Any] = {}
    timeout_s: float | None = None


class RolloutCancel(RolloutMessage, frozen=True, kw_only=True, tag="rollout.cancel"):
    """Asks the orchestrator to end a rollout at once."""

    reason: str = "cancelled"


class RolloutScheduled(RolloutMessage, frozen=True, kw_only=True, tag="rollout.scheduled"):
    """An attempt was accepted and waits for a place."""

    group_size: int
    task: str
    harness: str


class RolloutStarted(RolloutMessage, frozen=True, kw_only=True, tag="rollout.started"):
    """The agent of an attempt runs. `sandbox` names the kind of isolation."""

    sandbox: str


class RolloutFinished(RolloutMessage, frozen=True, kw_only=True, tag="rollout.finished"):
    """The agent ended and the verifier decided. Last message of the rollout.

    Attributes:
        group_size: rollouts in the group.
        task: name of the task.
        harness: name of the harness adapter.
        reward: the verifier's, finite.
        exit_code: of the agent; it decides nothing.
        agent_s: wall-clock seconds of the agent.
        verify_s: wall-clock seconds of the verifier.
    """

    group_size: int
    task: str
    harness: str
    reward: float
    exit_code: int | None = None
    agent_s: float = 0.0
    verify_s: float = 0.0


class RolloutTimedOut(RolloutMessage, frozen=True, kw_only=True, tag="rollout.timed_out"):
    """The agent used up its wall-clock time and was ended with all it had started. Last message of the rollout.

    Attributes:
        reward: of the state it had reached; None when the verifier left none. The group's timeout policy decides on its use.
    """

    group_size: int
    task: str
    harness: str
    reward: float | None = None
    limit_s: float
    agent_s: float = 0.0


class RolloutFailed(RolloutMessage, frozen=True, kw_only=True, tag="rollout.failed"):
    """An attempt ended without a reward that could be used.

    Attributes:
        reason: class name from `shared.errors`.
        detail: one line for a person.
        final: no further attempt follows; last message of the rollout.
        sealed: the attempt's session was sealed, so that the collector can wait for its `SessionSealed` and count every call.
    """

    group_size: int
    task: str
    harness: str
    reason: str
    detail: str = ""
    final: bool = True
    sealed: bool = False


# --- calls and sessions ------------------------------------------------------------------------------------------------


class CallRecorded(RolloutMessage, frozen=True, kw_only=True, tag="call.recorded"):
    """One model call, token for token. Published before the last byte of the reply reaches the harness.

    The prompt is stored as a delta: ``prompt = full(parent)[:parent_len] + prompt_delta`` where
    ``full(call) = prompt(call) + completion(call)``; roots have ``parent_len == 0``.

    Attributes:
        session_id: recording session (one per attempt).
        seq: arrival order at the proxy, from 1, unique within the session.
        api: dialect that the harness spoke (`openai.chat`).
        model: name that the harness asked for.
        role: `main`, `sub`, `aux` or `judge`.
        parent_seq: call whose full ids are a strict prefix of this prompt, None for a root.
        parent_status: `root`, `extends` or `unresolved`.
        parent_len: tokens taken over from the parent.
        prompt_len: tokens of the whole prompt.
        prompt_delta: packed uint32, the tokens that follow the parent's.
        prompt_digest: blake2b-128 hex over the whole prompt as packed uint32.
        completion: packed uint32, sampled ids, a sampled stop token included.
        logprobs: packed float32, one per sampled id, natural log.
        finish_reason: the engine's.
        sampling: parameters that were sent to the engine.
        requested: parameters that the harness had asked for.
        weight_version_start: served when the call began.
        weight_version_end: served when it ended.
        engine: engine id (its base URL).
        constrained: sampled under a grammar or a forced tool.
        delivery: `sent` (whole, on its way), `cut` (the client left first).
        streamed: the harness asked for a stream.
        latency_s: seconds from arrival to the last upstream byte.
        reply: the assistant message as the harness saw it.
    """

    session_id: str
    seq: int
    api: str
    model: str
    role: Literal["main", "sub", "aux", "judge"] = "main"
    parent_seq: int | None = None
    parent_status: Literal["root", "extends", "unresolved"] = "root"
    parent_len: int = 0
    prompt_len: int
    prompt_delta: bytes
    prompt_digest: str
    completion: bytes
    logprobs: bytes
    finish_reason: str | None
    sampling: dict[str, Any] = {}
    requested: dict[str, Any] = {}
    weight_version_start: int
    weight_version_end: int
    engine: str = ""
    constrained: bool = False
    delivery: Literal["sent", "cut"] = "sent"
    streamed: bool = False
    latency_s: float = 0.0
    reply: dict[str, Any] = {}

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

    session_id: str
    calls: int
    errored: list[int] = []
    cut: list[int] = []
    lost: list[int] = []

    @property
    def event_id(self) -> str:
        return f"sealed-{self.session_id}"


# --- trajectories and groups -------------------------------------------------------------------------------------------


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Where sampled tokens went: ``sampled == trained + masked + dropped``, always.

    Attributes:
        sampled: tokens in the completions of all recorded calls.
        trained: of them, those with response_mask 1 in a row.
        masked: of them, those in a row with response_mask 0, or of calls that are not trained by rule.
        dropped: of them, those of attempts and groups that were discarded.
        reasons: tokens per reason of masking or dropping.
    """

    sampled: int = 0
    trained: int = 0
    masked: int = 0
    dropped: int = 0
    reasons: dict[str, int] = {}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One training sequence: a root-to-leaf path of calls, L tokens.

    Attributes:
        prompt_len: tokens before the first sampled one; the response is the rest.
        ids: packed uint32 (L,).
        response_mask: packed uint8 (L,), 1 on tokens that this row trains.
        logprobs: packed float32 (L,), the engine's at sampling time, 0 where response_mask is 0.
    """

    prompt_len: int
    ids: bytes
    response_mask: bytes
    logprobs: bytes


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout as the trainer sees it. It has one vote in its group, however many rows it has."""

    rollout_id: str
    attempt: int
    task: str
    harness: str
    reward: float
    timed_out: bool = False
    calls: int = 0
    tokens: TokenCounts = TokenCounts()
    min_version: int = 0
    max_version: int = 0
    rows: list[Row] = []


class TrajectoryAssembled(RolloutMessage, frozen=True, kw_only=True, tag="trajectory.assembled"):
    """All calls of an attempt were found and made into rows."""

    reward: float
    calls: int
    rows: int
    tokens: TokenCounts


class TrajectoryDiscarded(RolloutMessage, frozen=True, kw_only=True, tag="trajectory.discarded"):
    """An attempt gives nothing to train on; `reason` is a class name from `shared.errors`, or a policy's name."""

    reason: str
    detail: str = ""
    tokens: TokenCounts = TokenCounts()


class BlobRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where a large body lies in the store: key, size in bytes, sha256 hex."""

    key: str
    size: int
    sha256: str


class GroupMessage(Message, frozen=True, kw_only=True):
    """A message about one group.

    Attributes:
        tokens: over all attempts of all its rollouts.
        outcomes: number of rollouts per outcome (`finished`, or the reason of failure).
    """

    group_id: str
    purpose: Purpose = "train"
    task: str = ""
    tokens: TokenCounts = TokenCounts()
    outcomes: dict[str, int] = {}

    @property
    def key(self) -> str:
        return self.group_id

    @property
    def event_id(self) -> str:
        return f"group-{self.group_id}"


class GroupCompleted(GroupMessage, frozen=True, kw_only=True, tag="group.completed"):
    """A group is ready to be trained on (or scored). Exactly one of completed or discarded is published per group.

    Attributes:
        trajectories: in the order of their rollout ids; empty when `ref` is set.
        ref: claim check to a body that decodes as ``list[Trajectory]``, for groups over 1 MB.
    """

    trajectories: list[Trajectory] = []
    ref: BlobRef | None = None


class GroupDiscarded(GroupMessage, frozen=True, kw_only=True, tag="group.discarded"):
    """A group cannot be trained on. `reason`: `no_variance`, `too_few`, `deadline`, ..."""

    reason: str
    detail: str = ""


# --- weights -----------------------------------------------------------------------------------------------------------


class WeightsPublished(Message, frozen=True, kw_only=True, tag="weights.published"):
    """The trainer wrote a new version and begins to load it into the engine."""

    version: int
    path: str = ""

    @property
    def key(self) -> str:
        return f"v{self.version}"

    @property
    def event_id(self) -> str:
        return f"weights-published-{self.run_id}-{self.version}"


class WeightsLoaded(Message, frozen=True, kw_only=True, tag="weights.loaded"):
    """The engine serves a version; a probe of its log-probs agreed with the trainer's (`probe_gap`, nats)."""

    version: int
    engine: str = ""
    push_s: float = 0.0
    probe_gap: float = 0.0

    @property
    def key(self) -> str:
        return f"v{self.version}"

    @property
    def event_id(self) -> str:
        return f"weights-loaded-{self.run_id}-{self.version}"


# --- synthesis ---------------------------------------------------------------------------------------------------------


class TaskMessage(Message, frozen=True, kw_only=True):
    """A message about one task that is being made."""

    task_id: str
    detail: str = ""

    @property
    def key(self) -> str:
        return self.task_id

    @property
    def event_id(self) -> str:
        return f"{str(type(self).__struct_config__.tag).replace('.', '-')}-{self.task_id}"


class SynthStart(TaskMessage, frozen=True, kw_only=True, tag="synth.start"):
    """Asks synth to make a task from a seed scenario."""


class TaskProposed(TaskMessage, frozen=True, kw_only=True, tag="task.proposed"):
    """A task was proposed."""


class TaskRejected(TaskMessage, frozen=True, kw_only=True, tag="task.rejected"):
    """A task was turned down; `detail` says why."""


class TaskBuilt(TaskMessage, frozen=True, kw_only=True, tag="task.built"):
    """A task's environment, verifier and oracle were written."""


class TaskTried(TaskMessage, frozen=True, kw_only=True, tag="task.tried"):
    """A task was tried by rollouts."""


class TaskAccepted(TaskMessage, frozen=True, kw_only=True, tag="task.accepted"):
    """A task passed every gate."""


COMMANDS: tuple[type[Message], ...] = (RunStart, RolloutStart, RolloutCancel, SynthStart)
EVENTS: tuple[type[Message], ...] = (
    RunStaged, RunStepped, RunEvaluated, RunFinished,
    RolloutScheduled, RolloutStarted, RolloutFinished, RolloutTimedOut, RolloutFailed,
    CallRecorded, SessionSealed, TrajectoryAssembled, TrajectoryDiscarded, GroupCompleted, GroupDiscarded,
    WeightsPublished, WeightsLoaded, TaskProposed, TaskRejected, TaskBuilt, TaskTried, TaskAccepted,
)  # fmt: skip
MESSAGES: tuple[type[Message], ...] = COMMANDS + EVENTS

_BY_TAG = {str(t.__struct_config__.tag): t for t in MESSAGES}
_encoder = msgspec.json.Encoder()
_decoders = {tag: msgspec.json.Decoder(t) for tag, t in _BY_TAG.items()}


class _Tagged(msgspec.Struct):
    type: str


_tag_decoder = msgspec.json.Decoder(_Tagged)


def tag_of(kind: type[Message]) -> str:
    """The wire tag of a message type: `call.recorded`."""
    return str(kind.__struct_config__.tag)


def encode(message: Message) -> bytes:
    """The message as JSON bytes."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """The message that `data` holds.

    Raises:
        msgspec.ValidationError: the type is unknown or a field is missing or of a wrong type.
        msgspec.DecodeError: it is not JSON.
    """
    tag = _tag_decoder.decode(data).type
    if tag not in _decoders:
        raise msgspec.ValidationError(f"unknown message type {tag!r}")
    return _decoders[tag].decode(data)
