"""veRL's loss of a batch, and the same loss by the documented formula in plain floats, on a model of a few weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from services.trainer.samples import Sample
from shared.config import AlgorithmConfig
from tests.unit.trainer.trees import VOCABULARY, Call, Rollout

if TYPE_CHECKING:
    from torch import Tensor

CLIP, DUAL_CLIP = 0.2, 3.0
WIDTH = 4


class Policy:
    """A causal model of a few weights in float64: what it says of a token depends on the tokens before it alone."""

    def __init__(self, seed: int) -> None:
        import torch

        generator = torch.Generator().manual_seed(seed)
        made = [
            torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((VOCABULARY, WIDTH), (WIDTH, VOCABULARY))
        ]
        self.weights = [w.requires_grad_() for w in made]

    def log_probs(self, ids: Sequence[int]) -> Tensor:
        """Of every token after the first: L ids give L - 1 values, in nats."""
        import torch

        embedding, head = self.weights
        tokens = torch.tensor(ids)
        hidden = torch.tanh(embedding[tokens[:-1]].cumsum(0))
        return (hidden @ head).log_softmax(-1).gather(-1, tokens[1:, None])[:, 0]


def verl_loss(samples: Sequence[Sample], policy: Policy, old: Policy, mode: str = "token-mean") -> Tensor:
    """What veRL's `ppo_loss` makes of a batch."""
    import torch
    from verl.utils import tensordict_utils as tu
    from verl.workers.config import FSDPActorConfig
    from verl.workers.utils.losses import ppo_loss

    from services.trainer.batch import jagged, padded

    config = FSDPActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_mini_batch_size=1, ppo_micro_batch_size_per_gpu=1, loss_agg_mode=mode,
        clip_ratio=CLIP, clip_ratio_low=CLIP, clip_ratio_high=CLIP, clip_ratio_c=DUAL_CLIP, use_kl_loss=False,
    )  # fmt: skip
    batch = jagged(padded(samples))
    with torch.no_grad():
        before = [old.log_probs(s.ids)[s.prompt_len - 1 :] for s in samples]
    batch["old_log_probs"] = torch.nn.utils.rnn.pad_sequence(before, batch_first=True)
    tu.assign_non_tensor(batch, dp_size=1, batch_num_tokens=sum(s.trained for s in samples), global_batch_size=len(samples))
    last = torch.zeros(1, dtype=torch.float64)  # a model says something of what follows the last token, too
    values = torch.cat([part for s in samples for part in (policy.log_probs(s.ids), last)])
    loss: Tensor = ppo_loss(config, {"log_probs": values}, batch)[0]
    return loss


def plain_loss(made: Sequence[Sequence[Rollout]], config: AlgorithmConfig, policy: Policy, old: Policy) -> float:
    """The formula of docs/credit.md in plain floats, rollout by rollout and call by call."""
    rollouts = [(r, group) for group in made for r in group if r.trained]
    per_rollout = []
    for rollout, group in rollouts:
        tokens = 0.0
        for call in (c for c in rollout.calls if c.trained):
            advantage = plain_advantage(rollout, call, [r.reward for r in group], config)
            new, was = (p.log_probs(call.full)[call.start - 1 :].tolist() for p in (policy, old))
            tokens += math.fsum(clipped(math.exp(a - b), advantage) for a, b in zip(new, was, strict=True))
        per_rollout.append(tokens)
    if config.loss_weighting == "token-mean":
        return math.fsum(per_rollout) / sum(r.trained for r, _ in rollouts)
    by = [config.loss_scale_factor if config.loss_weighting == "constant" else r.trained for r, _ in rollouts]
    return math.fsum(tokens / d for tokens, d in zip(per_rollout, by, strict=True)) / len(rollouts)


def plain_advantage(rollout: Rollout, call: Call, rewards: Sequence[float], config: AlgorithmConfig) -> float:
    if len(set(rewards)) == 1:
        return 0.0
    size, mean = len(rewards), sum(rewards) / len(rewards)
    shaped = config.gamma ** rollout.after(call) * rollout.reward
    if config.adv_estimator == "rloo":
        return shaped - (size * mean - rollout.reward) / (size - 1)
    deviation = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (size - 1))
    return (shaped - mean) / (deviation + 1e-6) if config.norm_adv_by_std_in_grpo else shaped - mean


def clipped(ratio: float, advantage: float) -> float:
    loss = max(-advantage * ratio, -advantage * min(max(ratio, 1 - CLIP), 1 + CLIP))
    return min(loss, -advantage * DUAL_CLIP) if advantage < 0 else loss


def gradients(loss: Tensor, policy: Policy) -> list[Tensor]:
    import torch

    return list(torch.autograd.grad(loss, policy.weights))
