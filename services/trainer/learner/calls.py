"""Trained tokens laid out with one row a call: what veRL calls a sequence, where its functions speak of one."""

from __future__ import annotations

import torch
from torch import Tensor


class CallRows:
    """The same tokens in two layouts: in training rows (B, R), and with one row a call (C, W), padded on the right.

    A training row may hold many calls, and how many depends on how calls happened to be merged. What is to be worked out of a
    whole reply (a mean ratio, a product of ratios) has to be worked out of a call.

    Attributes:
        mask: (C, W) bool, where a call's row has a token.
    """

    def __init__(self, mask: Tensor, calls: Tensor) -> None:
        """Takes the trained tokens and the number of the call that each belongs to, both (B, R)."""
        self._rows = mask.bool()
        _, counts = torch.unique_consecutive(calls[self._rows], return_counts=True)
        self._sizes = counts.tolist()
        self.mask = torch.arange(max(self._sizes, default=0), device=counts.device) < counts[:, None]

    def gather(self, values: Tensor) -> Tensor:
        """(B, R) to (C, W); padding is 0."""
        parts = torch.split_with_sizes(values[self._rows], self._sizes)
        return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True)

    def scatter(self, values: Tensor) -> Tensor:
        """(C, W) to (B, R); what is no trained token is 0."""
        out = torch.zeros(self._rows.shape, dtype=values.dtype, device=values.device)
        out[self._rows] = values[self.mask]
        return out
