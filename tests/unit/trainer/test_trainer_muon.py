"""Muon for matrices, AdamW for the rest."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from services.trainer.verl.muon import MuonAdamW, orthogonalize


@pytest.mark.parametrize("shape", [(8, 8), (16, 4), (4, 16)])
def test_singular_values_become_about_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape) @ torch.diag(torch.logspace(-1, 1, shape[1]))
    values = torch.linalg.svdvals(orthogonalize(matrix))
    assert values.min() > 0.3
    assert values.max() < 1.3


def test_vectors_and_embeddings_are_updated_as_by_adamw() -> None:
    torch.manual_seed(0)
    ours = [nn.Parameter(torch.randn(32, 4)), nn.Parameter(torch.randn(6))]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    a = MuonAdamW(ours, lr=1e-2, betas=(0.9, 0.98), weight_decay=0.1)
    b = torch.optim.AdamW(theirs, lr=1e-2, betas=(0.9, 0.98), weight_decay=0.1)
    for _ in range(5):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = q.grad = torch.randn_like(p)
        a.step()
        b.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q)


def test_it_learns_a_linear_map_and_resumes_from_its_state() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 8))
    goal = torch.randn(32, 8)

    def loss() -> torch.Tensor:
        return nn.functional.mse_loss(model(torch.arange(32)), goal)

    optimizer = MuonAdamW(model.parameters(), lr=1e-2)
    first = loss().item()
    for _ in range(60):
        optimizer.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert loss().item() < first / 2
    again = MuonAdamW(model.parameters(), lr=1e-2)
    again.load_state_dict(optimizer.state_dict())
    assert again.state_dict()["state"].keys() == optimizer.state_dict()["state"].keys()


def test_a_parameter_without_gradient_stays() -> None:
    p = nn.Parameter(torch.ones(4, 4))
    MuonAdamW([p]).step()
    assert torch.equal(p, torch.ones(4, 4))
