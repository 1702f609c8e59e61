"""The loss of a batch as the learner takes it from veRL, on a model of a few weights in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from services.trainer.batch.samples import Sample
from services.trainer.ports import LearnerSettings
from tests.unit.trainer.trees import VOCABULARY

if TYPE_CHECKING:
    from torch import Tensor

WIDTH = 4


class Policy:
    """A causal model of a few weights in float64: what it says of a token depends on the tokens before it alone."""

    def __init__(self, seed: int, near: Policy | None = None) -> None:
        import torch

        generator = torch.Generator().manual_seed(seed)
        made = [
            torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((VOCABULARY, WIDTH), (WIDTH, VOCABULARY))
        ]
        if near is not None:
            made = [w.detach() + 0.1 * noise for w, noise in zip(near.weights, made, strict=True)]
        self.weights: list[Tensor] = [w.requires_grad_() for w in made]

    def says(self, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Log-probs and entropies (nats) of every token after the first: L ids give L - 1 values."""
        import torch

        embedding, head = self.weights
        tokens = torch.tensor(ids)
        logits = (torch.tanh(embedding[tokens[:-1]].cumsum(0)) @ head).log_softmax(-1)
        return logits.gather(-1, tokens[1:, None])[:, 0], -(logits.exp() * logits).sum(-1)

    def log_probs(self, ids: Sequence[int]) -> Tensor:
        return self.says(ids)[0]


@dataclass(frozen=True)
class Policies:
    """Whose log-probs a loss is made of.

    Attributes:
        new: is trained.
        old: the policy before the update.
        sampled: that the engine had.
        reference: that the divergence is from.
    """

    new: Policy = field(default_factory=lambda: Policy(0))
    old: Policy = field(default_factory=lambda: Policy(1))
    sampled: Policy = field(default_factory=lambda: Policy(2))
    reference: Policy = field(default_factory=lambda: Policy(3))


def make_settings(algorithm: dict[str, Any] | None = None, actor: dict[str, Any] | None = None) -> LearnerSettings:
    return msgspec.convert({"algorithm": algorithm or {}, "actor": actor or {}}, LearnerSettings)


def sampled_by(policy: Policy, samples: Sequence[Sample]) -> list[Sample]:
    """Samples with the log-probs of a policy; 0 where nothing is trained."""
    return [replace(s, logprobs=[p * m for p, m in zip(row, s.mask, strict=True)]) for s, row in _rows(policy, samples)]


def _rows(policy: Policy, samples: Sequence[Sample]) -> list[tuple[Sample, list[float]]]:
    return [(s, policy.log_probs(s.ids)[s.prompt_len - 1 :].tolist()) for s in samples]


def learner_loss(
    samples: Sequence[Sample],
    settings: LearnerSettings,
    policies: Policies,
    budget: int = 10**6,
    noise: float = 0.0,
) -> tuple[Tensor, list[dict[str, Any]]]:
    """The sum of a batch's losses over micro-batches of at most `budget` tokens, and the metrics of each.

    Args:
        samples: with the log-probs of sampling time; see `sampled_by`.
        settings: of the learner.
        policies: see there.
        budget: tokens of a micro-batch; a longer row has one to itself.
        noise: what the policies say of tokens that are not trained.
    """
    import torch

    from services.trainer.batch.batch import padded
    from services.trainer.learner.prepare import cut_steps, set_policies

    batch = padded(samples)
    batch["advantages"] = batch["advantages"].double()
    untrained = batch["response_mask"] == 0
    now, reference = (_padded_log_probs(p, samples).masked_fill(untrained, noise) for p in (policies.old, policies.reference))
    correction = settings.algorithm.rollout_correction
    set_policies(batch, now, reference if settings.actor.use_kl_loss else None, correction)
    parts = cut_steps(batch, samples, settings.actor.ppo_mini_batch_size, settings.algorithm)
    losses, metrics = [], []
    for part in parts:
        tokens = int(batch["response_mask"][part].sum())
        for rows in _micro_batches(samples, part, budget):
            loss, found = _loss(batch[rows], [samples[i] for i in rows], settings, policies.new, tokens, noise)
            losses.append(loss / len(parts))
            metrics.append(found)
    return torch.stack(losses).sum() if losses else torch.zeros((), requires_grad=True), metrics


def _loss(
    rows: Any, samples: Sequence[Sample], settings: LearnerSettings, policy: Policy, tokens: int, noise: float
) -> tuple[Tensor, Any]:
    import torch
    from verl.utils import tensordict_utils as tu

    from services.trainer.batch.batch import jagged
    from services.trainer.learner.loss import policy_loss
    from services.trainer.learner.workers import actor_config

    batch = jagged(rows)
    tu.assign_non_tensor(batch, dp_size=1, batch_num_tokens=tokens)
    # The value at a place is of the token after it; a model says something of what follows the last token, too.
    trained = torch.tensor([bool(m) for s in samples for m in [*[0] * (s.prompt_len - 1), *s.mask, 0]])
    said = [policy.says(s.ids) for s in samples]
    last = torch.zeros(1, dtype=torch.float64)
    parts = ([part for values in said for part in (values[i], last)] for i in (0, 1))
    output = dict(zip(("log_probs", "entropy"), (torch.cat(p).masked_fill(~trained, noise) for p in parts), strict=True))
    return policy_loss(actor_config(settings), output, batch)


def _micro_batches(samples: Sequence[Sample], part: Sequence[int], budget: int) -> list[list[int]]:
    made: list[list[int]] = [[]]
    for i in part:
        if made[-1] and sum(len(samples[k].ids) for k in [*made[-1], i]) > budget:
            made.append([])
        made[-1].append(i)
    return made


def _padded_log_probs(policy: Policy, samples: Sequence[Sample]) -> Tensor:
    import torch

    with torch.no_grad():
        rows = [policy.log_probs(s.ids)[s.prompt_len - 1 :] for s in samples]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def gradients(loss: Tensor, policy: Policy) -> list[Tensor]:
    import torch

    found = torch.autograd.grad(loss, policy.weights, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(w) if g is None else g for g, w in zip(found, policy.weights, strict=True)]
