"""The policy's loss and its steps. The names are veRL's (`actor_rollout_ref.actor`)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.base import Count, NonNegative, Positive, Section, Whole

KlLossType = Literal["kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "k1+", "k3+", "low_var_kl+", "abs+"]


class PolicyLossConfig(Section, frozen=True, kw_only=True):
    """Which loss.

    Attributes:
        loss_mode: `vanilla` (PPO), `gspo` (one ratio a call), `cispo`, `gpg` (no ratio), `dppo_tv`, `dppo_kl`, or `dro`.
        dro_beta: weight of the squared log-ratio under `dro`.
    """

    loss_mode: Literal["vanilla", "gspo", "cispo", "gpg", "dppo_tv", "dppo_kl", "dro"] = "vanilla"
    dro_beta: Positive = 1.0


class ActorConfig(Section, frozen=True, kw_only=True):
    """The policy's loss and its steps.

    Attributes:
        clip_ratio: how far from 1 the policy ratio counts.
        clip_ratio_low: how far below 1 it counts; 0 takes `clip_ratio`.
        clip_ratio_high: how far above 1 it counts; 0 takes `clip_ratio`.
        clip_ratio_c: ratio beyond which a bad action counts no more (dual clip); for `dppo_*`, largest ratio at all.
        policy_loss: which loss.
        use_kl_loss: add the divergence from the model that the run began from; that model is kept in memory, too.
        kl_loss_coef: weight of that divergence.
        kl_loss_type: veRL's estimator of it; with a `+` its gradient is the unbiased one.
        entropy_coeff: weight of the entropy bonus; 0 for none.
        grad_clip: largest gradient norm.
        ppo_mini_batch_size: groups an optimizer step; 0 for all groups of a training step. A trajectory's rows stay
            together, and it weighs the same whichever step it is in.
        ppo_epochs: times that a batch is gone through.
        ppo_max_token_len_per_gpu: token budget of one micro-batch; no row may be longer.
    """

    clip_ratio: Positive = 0.2
    clip_ratio_low: NonNegative = 0.0
    clip_ratio_high: NonNegative = 0.0
    clip_ratio_c: Annotated[float, Meta(gt=1)] = 3.0
    policy_loss: PolicyLossConfig = PolicyLossConfig()
    use_kl_loss: bool = False
    kl_loss_coef: NonNegative = 0.001
    kl_loss_type: KlLossType = "low_var_kl"
    entropy_coeff: float = 0.0
    grad_clip: Positive = 1.0
    ppo_mini_batch_size: Whole = 0
    ppo_epochs: Count = 1
    ppo_max_token_len_per_gpu: Count = 32768
