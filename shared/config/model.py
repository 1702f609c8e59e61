"""Every setting, a section a service. Unknown keys are refused; the field docs are what `openforge check` prints.

Relative paths are relative to the folder of the file that names them. Secrets never stand here: only the name of the
environment variable that holds them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[float, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]


ServiceName = Literal["proxy", "orchestrator", "collector", "trainer", "synth"]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration file."""


class RunConfig(Section, frozen=True, kw_only=True):
    """The run as a whole.

    Attributes:
        id: run id; empty makes a new one.
        root: folder that gets one folder per run.
        seed: of task order, sampling and everything else that draws.
        min_free_mb: free disk below which a run does not start, or ends with a message instead of a broken file.
    """

    id: str = ""
    root: str = "runs"
    seed: int = 0
    min_free_mb: Count = 500


class BusConfig(Section, frozen=True, kw_only=True):
    """NATS.

    Attributes:
        url: of a running server; empty starts the embedded one.
        token_env: environment variable with the server's token.
        timeout_s: how long a publish may wait for its acknowledgement, retries included.
        max_deliver: deliveries before a message becomes a dead letter.
        max_payload: bytes; larger bodies are refused (the embedded server is started with it).
        max_bytes: bytes each stream may keep on disk.
        ack_wait_s: a message that its consumer went silent about is delivered again after so long; a running handler keeps it.
        replicas: copies of each stream in a cluster of servers.
    """

    url: str = ""
    token_env: str = "OPENFORGE_BUS_TOKEN"
    timeout_s: Positive = 5.0
    max_deliver: Count = 6
    max_payload: Count = 8 * 1024 * 1024
    max_bytes: Count = 2 * 1024**3
    ack_wait_s: Positive = 30.0
    replicas: Count = 1


class StoreConfig(Section, frozen=True, kw_only=True):
    """Redis.

    Attributes:
        url: of a running server; empty starts the embedded one.
        password_env: environment variable with its password.
        ttl_s: seconds after which the state of a closed rollout or group expires.
        timeout_s: how long one operation may take, reconnects included.
    """

    url: str = ""
    password_env: str = "OPENFORGE_STORE_PASSWORD"
    ttl_s: Positive = 3600.0
    timeout_s: Positive = 5.0


class EngineConfig(Section, frozen=True, kw_only=True):
    """vLLM.

    Attributes:
        url: of a running server, without `/v1`; empty starts one.
        api: in teacher mode, what the server speaks.
        key_env: in teacher mode, environment variable with its API key; empty for none.
        model: model folder (Hugging Face format) that training starts from.
        served_name: model name that the engine answers to.
        max_model_len: tokens of prompt and completion together.
        dtype: of the served weights.
        tool_parser: vLLM's tool-call parser.
        kv_cache_mb: memory of the KV cache.
        max_num_seqs: sequences decoded at once.
        start_timeout_s: how long it may take to come up.
        args: further arguments of `vllm serve`.
        command: replaces `vllm serve` altogether; `{port}`, `{model}` and `{name}` are filled in.
    """

    url: str = ""
    api: Literal["openai", "anthropic"] = "openai"
    key_env: str = ""
    model: str = ""
    served_name: str = "policy"
    max_model_len: Count = 4096
    dtype: str = "float32"
    tool_parser: str = "hermes"
    kv_cache_mb: Count = 128
    max_num_seqs: Count = 64
    start_timeout_s: Positive = 180.0
    args: list[str] = []
    command: list[str] = []


class ProxyConfig(Section, frozen=True, kw_only=True):
    """The recording gateway.

    Attributes:
        mode: `record` forwards conversations and takes the prompt's ids from the engine's echo; `splice` sends the ids that
            were sampled before, and a rendered delta, so that a conversation stays one row whatever the template does.
            `teacher` records a model behind any API (`engine.api`) as text: its rollouts can be scored, not trained on.
        thinking: in splice mode, whether earlier thinking stays in the prompt after a new user message where the template
            would drop it (`keep`), or the call is a new root (`fork`).
        host: address to listen on.
        port: 0 takes a free one.
        control_key_env: environment variable with the key of the control routes.
        call_timeout_s: how long one model call may take.
        hold_s: how long a call waits while weights are being loaded, before 503.
        drain_s: how long sealing waits for calls in flight.
        max_body_mb: largest request body.
        read_timeout_s: how long a request may take to come: its headers, then its body.
        temperature: sampling temperature of training rollouts; the harness's own wish is recorded, not followed.
        max_tokens: cap on the tokens of one reply; 0 leaves it to the harness and the served length.
    """

    mode: Literal["record", "splice", "teacher"] = "record"
    thinking: Literal["keep", "fork"] = "keep"
    host: str = "127.0.0.1"
    port: Port = 0
    control_key_env: str = "OPENFORGE_CONTROL_KEY"
    call_timeout_s: Positive = 600.0
    hold_s: Positive = 55.0
    drain_s: Positive = 5.0
    max_body_mb: Positive = 32.0
    read_timeout_s: Positive = 60.0
    temperature: NonNegative = 1.0
    max_tokens: Annotated[int, Meta(ge=0)] = 0


class OrchestratorConfig(Section, frozen=True, kw_only=True):
    """Rollouts and their sandboxes.

    Attributes:
        backend: where sandboxes run.
        sandbox: `auto` takes bubblewrap when present, else another uid when root, else a plain process.
        concurrency: rollouts at once.
        attempts: of one rollout, when the infrastructure fails it.
        timeout_s: wall-clock limit of an agent when neither the rollout nor its task sets one.
        verifier_timeout_s: of the verifier when the task sets none.
        work_root: folder for the sandboxes; empty takes one under the system's temporary folder.
        keep: which sandbox folders to keep after the rollout.
        uid: user and group id to drop to when root without bubblewrap.
        harness_dir: folder with harness adapters of your own, looked into before the built-in ones.
        reward: `verifier`, or `coin` for a control run in which a fair coin replaces the verifier in training rollouts.
    """

    backend: Literal["local"] = "local"
    sandbox: Literal["auto", "bubblewrap", "uid", "process"] = "auto"
    concurrency: Count = 8
    attempts: Count = 3
    timeout_s: Positive = 600.0
    verifier_timeout_s: Positive = 60.0
    work_root: str = ""
    keep: Literal["none", "failed", "all"] = "none"
    uid: Annotated[int, Meta(ge=1)] = 65534
    harness_dir: str = ""
    reward: Literal["verifier", "coin"] = "verifier"


class CollectorConfig(Section, frozen=True, kw_only=True):
    """Trajectories and groups.

    Attributes:
        timeout_policy: what a rollout that ran out of time is worth: dropped, a reward of 0, or a vote without training.
        strict: a group needs all its rollouts.
        deadline_s: a group that is not complete so long after its first message is closed with what it has.
        max_row_tokens: a longer row is cut at a call boundary.
        inline_bytes: a larger group travels by reference.
    """

    timeout_policy: Literal["discard", "zero", "mask"] = "discard"
    strict: bool = False
    deadline_s: Positive = 900.0
    max_row_tokens: Count = 32768
    inline_bytes: Count = 1_000_000


class WarmStartConfig(Section, frozen=True, kw_only=True):
    """Supervised start on token rows, through veRL's `sft_loss`.

    Attributes:
        rows: parquet file with columns `input_ids` and `loss_mask` (lists of int, equal lengths); empty skips the warm start.
        steps: optimizer steps.
        batch: rows a step.
        lr: peak learning rate; linear warm-up over 20 steps, then linear decay to a tenth.
        optimizer: `module:Class` of a torch optimizer.
        cache: folder for the result, keyed by everything it depends on; empty keeps none.
    """

    rows: str = ""
    steps: Count = 300
    batch: Count = 32
    lr: Positive = 3e-3
    optimizer: str = "torch.optim:AdamW"
    cache: str = ""


class TrainerConfig(Section, frozen=True, kw_only=True):
    """GRPO through veRL; the names are veRL's where it has one.

    Attributes:
        harness: adapter that rollouts run in.
        steps: training steps.
        groups: groups a step (veRL `data.train_batch_size`).
        n: rollouts a group (veRL `rollout.n`).
        lr: learning rate.
        betas: of AdamW.
        clip_ratio: of the policy ratio.
        grad_clip: largest gradient norm.
        norm_adv_by_std_in_grpo: divide the advantage by the group's standard deviation.
        max_tokens: tokens of one reply in rollouts.
        oversample: groups started a step at most, as a multiple of `groups`, when groups are dropped.
        ppo_max_token_len_per_gpu: token budget of one micro-batch.
        threads: of torch.
        save_freq: steps between checkpoints; 0 saves the last only.
        eval_episodes: held-out episodes before and after; 0 skips evaluation.
        step_timeout_s: a step whose groups are not there by then ends the run with an error.
        probe_gap: largest log-prob difference (nats) that the probe after a push may show.
        warm_start: supervised start.
    """

    harness: str = "react"
    steps: Annotated[int, Meta(ge=0)] = 10
    groups: Count = 8
    n: Annotated[int, Meta(ge=2)] = 8
    lr: Positive = 1e-6
    betas: tuple[float, float] = (0.9, 0.999)
    clip_ratio: Positive = 0.2
    grad_clip: Positive = 1.0
    norm_adv_by_std_in_grpo: bool = True
    max_tokens: Count = 512
    oversample: Annotated[float, Meta(ge=1)] = 1.5
    ppo_max_token_len_per_gpu: Count = 16384
    threads: Count = 1
    save_freq: Annotated[int, Meta(ge=0)] = 5
    eval_episodes: Annotated[int, Meta(ge=0)] = 64
    step_timeout_s: Positive = 600.0
    probe_gap: Positive = 1e-3
    warm_start: WarmStartConfig = WarmStartConfig()


class TasksConfig(Section, frozen=True, kw_only=True):
    """Task sets: folders whose sub-folders are Harbor-format tasks.

    Attributes:
        train: tasks to learn from.
        heldout: tasks that are only scored.
    """

    train: str = ""
    heldout: str = ""


class SynthConfig(Section, frozen=True, kw_only=True):
    """Task synthesis.

    Attributes:
        enabled: run the service.
    """

    enabled: bool = True


class Config(Section, frozen=True, kw_only=True):
    """The whole file."""

    run: RunConfig = RunConfig()
    bus: BusConfig = BusConfig()
    store: StoreConfig = StoreConfig()
    engine: EngineConfig = EngineConfig()
    proxy: ProxyConfig = ProxyConfig()
    orchestrator: OrchestratorConfig = OrchestratorConfig()
    collector: CollectorConfig = CollectorConfig()
    trainer: TrainerConfig = TrainerConfig()
    tasks: TasksConfig = TasksConfig()
    synth: SynthConfig = SynthConfig()


PATHS: tuple[tuple[str, ...], ...] = (
    ("run", "root"), ("engine", "model"), ("orchestrator", "work_root"), ("orchestrator", "harness_dir"),
    ("tasks", "train"), ("tasks", "heldout"), ("trainer", "warm_start", "rows"), ("trainer", "warm_start", "cache"),
)  # fmt: skip
"""Values that are paths, made absolute against the folder of the file (or the working folder, for --set and environment)."""

Tree = dict[str, Any]
