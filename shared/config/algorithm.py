"""How a group's rewards become the weight of each sampled token. The names are veRL's where it has one."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.base import Count, Section

RS_TOKEN = ("token_k1", "token_k2", "token_k3")
RS_CALL = (
    "seq_sum_k1", "seq_sum_k2", "seq_sum_k3", "seq_mean_k1", "seq_mean_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3",
)  # fmt: skip


class RolloutCorrectionConfig(Section, frozen=True, kw_only=True):
    """Correction for tokens that other weights, or another program, sampled. A veRL sequence is one call here.

    Attributes:
        rollout_is: importance weights: `none`, one a `token`, or one a call (`sequence`, the product of its tokens').
        rollout_is_threshold: largest importance weight; as text `lower_upper` (such as "0.5_5.0") those outside become 0.
        rollout_is_batch_normalize: divide the importance weights by their mean over the batch.
        rollout_rs: what leaves the batch: `none`, or a comma-separated list of veRL's tests, `token_*` of tokens and `seq_*`
            of calls (`token_k1`, `seq_mean_k3`, ...).
        rollout_rs_threshold: bounds of those tests, one for all or one for each: ratios `lower_upper` for
            k1, a number for k2 and k3.
        bypass_mode: take the recorded log-probs for the old policy's instead of working them out again.
    """

    rollout_is: Literal["none", "token", "sequence"] = "token"
    rollout_is_threshold: float | str = 2.0
    rollout_is_batch_normalize: bool = False
    rollout_rs: str = "none"
    rollout_rs_threshold: float | str = ""
    bypass_mode: bool = False

    @property
    def tests(self) -> list[str]:
        """The rejection tests, in their order."""
        return [] if self.rollout_rs == "none" else [name.strip() for name in self.rollout_rs.split(",")]

    def __post_init__(self) -> None:
        check_bounds("rollout_is_threshold", str(self.rollout_is_threshold), pair=None)
        known = (*RS_TOKEN, *RS_CALL)
        if unknown := [name for name in self.tests if name not in known]:
            raise ValueError(f"rollout_rs {unknown[0]!r} is none of none, {', '.join(known)}")
        bounds = [text.strip() for text in str(self.rollout_rs_threshold).split(",")]
        if self.tests and len(bounds) not in (1, len(self.tests)):
            raise ValueError(
                f"rollout_rs_threshold has {len(bounds)} bounds for {len(self.tests)} tests; give one, or one a test"
            )
        for name, text in zip(self.tests, bounds * len(self.tests), strict=False):
            check_bounds(f"rollout_rs_threshold of {name}", text, pair=None if name.endswith("k1") else False)
        if self.bypass_mode and self.rollout_is != "none":
            raise ValueError("with bypass_mode the policy ratio is the correction: set rollout_is to none")


def check_bounds(name: str, text: str, pair: bool | None) -> None:
    """Whether a text is a positive number, or `lower_upper` of two of them.

    Args:
        name: of the setting.
        text: its value.
        pair: True demands two numbers, False one, None takes either.

    Raises:
        ValueError: it is something else.
    """
    try:
        values = [float(part) for part in text.split("_")]
    except ValueError:
        values = []
    sizes = {True: (2,), False: (1,), None: (1, 2)}[pair]
    if len(values) not in sizes or not all(0 < v < float("inf") for v in values) or sorted(values) != values:
        wanted = {True: "lower_upper", False: "a positive number", None: "a positive number, or lower_upper such as 0.5_2.0"}[
            pair
        ]
        raise ValueError(f"{name} is {text!r}; it takes {wanted}")


class AlgorithmConfig(Section, frozen=True, kw_only=True):
    """Rewards to advantages, and trajectories to weights in the loss.

    Attributes:
        adv_estimator: what a reward is compared with: `grpo` the group's mean, `rloo` the mean of the group's others,
            `reinforce_plus_plus_baseline` the group's mean, then all advantages of the batch are whitened.
        norm_adv_by_std_in_grpo: with `grpo`, divide the advantage by the group's standard deviation.
        gamma: a call's reward is the trajectory's, times gamma for each trained call that came after it.
        loss_weighting: what every token's loss is divided by: `trajectory` by the trained tokens of its trajectory, so that
            each votes alike; `token-mean` by those of the whole batch (DAPO); `constant` by `loss_scale_factor` (Dr.GRPO).
        loss_scale_factor: tokens that a trajectory's loss is divided by under `constant`.
        rollout_correction: for tokens that other weights sampled.
    """

    adv_estimator: Literal["grpo", "rloo", "reinforce_plus_plus_baseline"] = "grpo"
    norm_adv_by_std_in_grpo: bool = True
    gamma: Annotated[float, Meta(gt=0, le=1)] = 1.0
    loss_weighting: Literal["trajectory", "token-mean", "constant"] = "trajectory"
    loss_scale_factor: Count = 1024
    rollout_correction: RolloutCorrectionConfig = RolloutCorrectionConfig()
