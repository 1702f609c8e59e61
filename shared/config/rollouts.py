"""Settings of what runs rollouts and records them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.clock import unix
from shared.config.base import Count, NonNegative, Port, Positive, Section, Whole
from shared.config.sandboxes import AutoConfig, DockerConfig, KubernetesConfig, ResourcesConfig, StagesConfig
from shared.config.sharing import CapacityConfig


class ProxyConfig(Section, frozen=True, kw_only=True):
    """The recording gateway.

    Attributes:
        mode: `record` forwards conversations and takes the prompt's ids from the engine's echo; `splice` sends the ids that
            were sampled before, and a rendered delta, so that a conversation stays one row whatever the template does.
            `teacher` records a model behind any API (`engine.api`) as text: its rollouts can be scored, not trained on.
        thinking: in splice mode, whether earlier thinking stays in the prompt after a new user message where the template
            would drop it (`keep`), or the call is a new root (`fork`).
        host: address to listen on.
        port: of the routes for harnesses; 0 takes a free one.
        socket: path of a unix socket that serves the routes for harnesses too, for sandboxes without a network; it ends with
            `.sock`, and `{host}` in it is the machine's name, for several proxies that share its folder. Empty for none.
        control_port: of the routes that open and seal sessions, and of the health checks; 0 takes a free one. No sandbox has
            to reach it.
        control_key_env: environment variable with the key of the control routes.
        call_timeout_s: how long one model call may take.
        hold_s: how long a call waits while weights are being loaded, before 503.
        drain_s: how long sealing waits for calls in flight.
        max_body_mb: largest request body.
        read_timeout_s: how long a request may take to come: its headers, then its body.
        temperature: sampling temperature of training rollouts; the harness's own wish is recorded, not followed.
        max_tokens: cap on the tokens of one reply; 0 leaves it to the harness and the served length.
        replay_constrained: score a reply that was sampled under a grammar once more without it, before anything else samples
            from other weights; one whose log-probs agree is trained like any other. Otherwise its tokens are masked.
    """

    mode: Literal["record", "splice", "teacher"] = "record"
    thinking: Literal["keep", "fork"] = "keep"
    host: str = "127.0.0.1"
    port: Port = 0
    socket: str = ""
    control_port: Port = 0
    control_key_env: str = "OPENFORGE_CONTROL_KEY"
    call_timeout_s: Positive = 600.0
    hold_s: Positive = 55.0
    drain_s: Positive = 5.0
    max_body_mb: Positive = 32.0
    read_timeout_s: Positive = 60.0
    temperature: NonNegative = 1.0
    max_tokens: Whole = 0
    replay_constrained: bool = False


class OrchestratorConfig(Section, frozen=True, kw_only=True):
    """Rollouts and their sandboxes.

    Attributes:
        backend: where sandboxes run.
        sandbox: `auto` takes bubblewrap when present, else another uid when root, else a plain process.
        concurrency: rollouts at once.
        task_concurrency: of one task at once; 0 for no limit of its own.
        priority: weight of this run against others that share its `capacity`; only the proportion counts.
        starts_per_s: sandboxes that are asked for in a second; 0 for no limit.
        attempts: of one rollout, when the infrastructure fails it.
        timeout: `fixed` limits agents to `timeout_s`; `auto` learns shorter limits from how long agents of the same harness and
            family of tasks took.
        timeout_s: wall-clock limit of an agent when neither the rollout nor its task sets one.
        verifier_timeout_s: of the verifier when the task sets none.
        work_root: folder for the sandboxes; empty takes one under the system's temporary folder.
        keep: which sandbox folders to keep after the rollout.
        uid: user and group id to drop to when root without bubblewrap.
        network: `none` lets no sandbox reach anything but the proxy, and tasks that ask for the internet are refused; `task`
            lets those tasks have it whose task.toml says `network_mode = "public"`.
        clock: ISO time, such as `2026-01-01T09:00:00Z`, that programs of a sandbox see when its first one starts, so that the
            prompts of a group, which have date and time in them, are alike; empty for the real time. Not for static programs.
        harness_dir: folder with harness adapters of your own, looked into before the built-in ones.
        reward: `verifier`, or `coin` for a control run in which a fair coin replaces the verifier in training rollouts.
        auto: how limits are learned.
        capacity: what the run shares with others.
        stages: limits of what comes before the agent.
        resources: of one sandbox.
        docker, kubernetes: settings of those backends.
    """

    backend: Literal["local", "docker", "kubernetes"] = "local"
    sandbox: Literal["auto", "bubblewrap", "uid", "process"] = "auto"
    concurrency: Count = 8
    task_concurrency: Whole = 0
    priority: Positive = 1.0
    starts_per_s: NonNegative = 0.0
    attempts: Count = 3
    timeout: Literal["fixed", "auto"] = "fixed"
    timeout_s: Positive = 600.0
    verifier_timeout_s: Positive = 60.0
    work_root: str = ""
    keep: Literal["none", "failed", "all"] = "none"
    uid: Annotated[int, Meta(ge=1)] = 65534
    network: Literal["none", "task"] = "none"
    clock: str = ""
    harness_dir: str = ""
    reward: Literal["verifier", "coin"] = "verifier"
    auto: AutoConfig = AutoConfig()
    capacity: CapacityConfig = CapacityConfig()
    stages: StagesConfig = StagesConfig()
    resources: ResourcesConfig = ResourcesConfig()
    docker: DockerConfig = DockerConfig()
    kubernetes: KubernetesConfig = KubernetesConfig()

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        if self.clock:
            unix(self.clock)


class TasksConfig(Section, frozen=True, kw_only=True):
    """Task sets: folders whose sub-folders are Harbor-format tasks.

    Attributes:
        train: tasks to learn from.
        heldout: tasks that are only scored.
    """

    train: str = ""
    heldout: str = ""
