"""Muon for the hidden matrices, AdamW for everything else, as an ordinary torch optimizer.

Muon (Jordan et al., 2024) replaces the update of a matrix by the nearest semi-orthogonal one: the momentum's singular values
all become about 1, so that rare directions learn as fast as frequent ones. Small models form look-up circuits with it in a
fraction of the steps that AdamW takes. Embeddings, the output head, norms and biases keep AdamW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

# Newton-Schulz coefficients of the Muon authors: chosen for speed; the singular values land in about [0.7, 1.2].
_A, _B, _C = 3.4445, -4.7750, 2.0315
_STEPS = 5
# Muon updates have a spectral norm of 1 whatever the shape; this makes their root mean square that of an AdamW update.
_RMS = 0.2


def orthogonalize(matrix: Tensor) -> Tensor:
    """The semi-orthogonal matrix near to a float matrix of shape (m, n), by a quintic Newton-Schulz iteration."""
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.mT if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x.mT if tall else x


class MuonAdamW(torch.optim.Optimizer):
    """Muon on matrices, AdamW on the rest.

    A matrix is a parameter with two dimensions of which the first is not the vocabulary's: that tells hidden weights from
    embeddings and output heads without knowing the model's names.

    Args:
        params: parameters, or groups of them; of FSDP2, each on one rank only.
        lr: learning rate of AdamW.
        weight_decay: decoupled, as in AdamW, on all parameters.
        betas: of AdamW.
        muon_ratio: Muon's learning rate as a multiple of `lr`.
        momentum: of Muon (Nesterov).
        vocab_size: first dimension by which embeddings and heads are known; 0 takes the largest of all matrices.
        eps: of AdamW.

    Raises:
        ValueError: a matrix is sharded over several ranks; its orthogonal update would need the whole of it.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 3e-3,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.98),
        muon_ratio: float = 10 / 3,
        momentum: float = 0.95,
        vocab_size: int = 0,
        eps: float = 1e-8,
    ) -> None:
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "betas": betas, "muon_ratio": muon_ratio, "momentum": momentum, "eps": eps,
        }  # fmt: skip
        super().__init__(params, defaults)
        matrices = [p for group in self.param_groups for p in group["params"] if p.ndim == 2]
        if any(isinstance(p, DTensor) and p.device_mesh.size() > 1 for p in matrices):
            raise ValueError("MuonAdamW needs whole matrices: run it on one rank, or take torch.optim:AdamW")
        self._vocab = vocab_size or max((p.shape[0] for p in matrices), default=0)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of all parameters that have a gradient. Returns the loss of `closure`, if one is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(group, p)
        return loss

    def _update(self, group: dict[str, Any], p: Tensor) -> None:
        weight, grad, state = _whole(p), _whole(p.grad), self.state[p]
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        if weight.ndim == 2 and weight.shape[0] != self._vocab:
            _muon(group, weight, grad, state)
        else:
            _adam(group, weight, grad, state)


def _muon(group: dict[str, Any], weight: Tensor, grad: Tensor, state: dict[str, Any]) -> None:
    momentum = state.setdefault("momentum", torch.zeros_like(weight))
    momentum.lerp_(grad, 1 - group["momentum"])
    update = orthogonalize(grad.lerp(momentum, group["momentum"]))
    scale: float = _RMS * max(weight.shape) ** 0.5
    weight.add_(update, alpha=-group["lr"] * group["muon_ratio"] * scale)


def _adam(group: dict[str, Any], weight: Tensor, grad: Tensor, state: dict[str, Any]) -> None:
    if not state:
        state.update(step=0, exp_avg=torch.zeros_like(weight), exp_avg_sq=torch.zeros_like(weight))
    beta1, beta2 = group["betas"]
    state["step"] += 1
    state["exp_avg"].lerp_(grad, 1 - beta1)
    state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    mean = state["exp_avg"] / (1 - beta1 ** state["step"])
    spread = (state["exp_avg_sq"] / (1 - beta2 ** state["step"])).sqrt_().add_(group["eps"])
    weight.addcdiv_(mean, spread, value=-group["lr"])


def _whole(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
