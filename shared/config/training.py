"""Settings of what makes rollouts into training data, and learns from it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.actor import ActorConfig
from shared.config.algorithm import AlgorithmConfig
from shared.config.base import Count, NonNegative, Positive, Section, Whole
from shared.config.lora import LoraConfig
from shared.config.optim import OptimConfig
from shared.config.pace import PaceConfig
from shared.config.parallel import ParallelConfig
from shared.config.push import PushConfig
from shared.config.resume import ResumeConfig
from shared.config.warm_start import WarmStartConfig

LoggerName = Literal["console", "wandb", "tensorboard", "mlflow", "trackio", "swanlab", "clearml"]


class CollectorConfig(Section, frozen=True, kw_only=True):
    """Trajectories and groups. The defaults follow the paper; what deviates is a setting.

    Attributes:
        timeout_policy: what a training rollout that ran out of time is worth: `discard` drops it, `zero` gives it the reward
            0, `mask` lets the verifier's reward of the state it reached count in the group but trains none of its tokens,
            `keep_prefix` trains its whole calls with that reward. Without a reward it is dropped, but for `zero`.
        min_group: rollouts with a reward that a group needs to be trained on; 0 for half of them, and two at least.
        strict: a group needs all its rollouts.
        deadline_s: a group that is not complete so long after its first message is closed with what it has.
        max_row_tokens: a longer row is cut at a call boundary.
        inline_bytes: a larger group travels by reference.
        archive: keep every record in the run folder, for `openforge show`, `export` and `replay`.
        archive_mb: size of the archive beyond which its oldest files are deleted; 0 for no bound.
        archive_days: age beyond which its files are deleted; 0 for no bound.
    """

    timeout_policy: Literal["discard", "zero", "mask", "keep_prefix"] = "discard"
    min_group: Whole = 0
    strict: bool = False
    deadline_s: Positive = 900.0
    max_row_tokens: Count = 32768
    inline_bytes: Count = 1_000_000
    archive: bool = True
    archive_mb: Whole = 0
    archive_days: NonNegative = 0.0


class TrainerConfig(Section, frozen=True, kw_only=True):
    """Training through veRL; the names are veRL's where it has one.

    Attributes:
        harness: adapter that rollouts run in.
        steps: training steps.
        groups: groups a step (veRL `data.train_batch_size`).
        n: rollouts a group (veRL `rollout.n`).
        algorithm: rewards to advantages and weights.
        actor: the policy's loss and its steps.
        optim: the optimizer and its schedule.
        lora: adapters, to be trained in place of all weights.
        parallel: where the learner runs.
        quarantine_after: verifier failures after which a task is left out for the rest of the run; 0 never.
        max_tokens: tokens of one reply in rollouts.
        oversample: groups started a step at most, as a multiple of `groups`, when groups are dropped.
        threads: of torch.
        pace: how far rollouts may run ahead.
        save_freq: steps between checkpoints; 0 saves the last only.
        max_actor_ckpt_to_keep: newest checkpoints that are kept; 0 keeps all.
        eval_episodes: held-out episodes before and after; 0 skips evaluation.
        step_timeout_s: a step whose groups are not there by then ends the run with an error.
        settle_s: longest wait at the end of a run for rollouts that are still under way, so that every token is accounted for.
        probe_gap: largest log-prob difference (nats) that the probe after a push may show.
        test_freq: steps between evaluations on the held-out tasks, besides those before and after; 0 for none.
        logger: where metrics go beside `metrics.jsonl` and the log (`console`); libraries that have to be installed.
        project_name: for them.
        experiment_name: for them; empty takes the run id.
        warm_start: supervised start.
        push: how new weights reach the engines.
        resume: how the run goes on after the trainer died.
    """

    harness: str = "react"
    steps: Whole = 10
    groups: Count = 8
    n: Annotated[int, Meta(ge=2)] = 8
    algorithm: AlgorithmConfig = AlgorithmConfig()
    actor: ActorConfig = ActorConfig()
    optim: OptimConfig = OptimConfig()
    lora: LoraConfig = LoraConfig()
    parallel: ParallelConfig = ParallelConfig()
    quarantine_after: Whole = 3
    max_tokens: Count = 512
    oversample: Annotated[float, Meta(ge=1)] = 1.5
    threads: Count = 1
    pace: PaceConfig = PaceConfig()
    save_freq: Whole = 5
    max_actor_ckpt_to_keep: Whole = 3
    eval_episodes: Whole = 64
    step_timeout_s: Positive = 600.0
    settle_s: Positive = 20.0
    probe_gap: Positive = 1e-3
    test_freq: Whole = 0
    logger: tuple[LoggerName, ...] = ("console",)
    project_name: str = "openforge"
    experiment_name: str = ""
    warm_start: WarmStartConfig = WarmStartConfig()
    push: PushConfig = PushConfig()
    resume: ResumeConfig = ResumeConfig()
