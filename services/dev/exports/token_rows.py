"""Training rows as they reached the trainer, under veRL's names. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from services.collector.regroup import settle
from services.dev.exports.selection import Chosen
from services.dev.fates import group_state
from shared.config import CollectorConfig
from shared.packing import unpack_floats, unpack_ids, unpack_mask


class TokenRow(msgspec.Struct, kw_only=True):
    """One row of P prompt tokens and R response tokens, without padding.

    Attributes:
        uid: the group, as veRL names it.
        row: its place among the rollout's rows.
        reward: of the trajectory; every row of it has the same.
        prompts: (P,) ids.
        responses: (R,) ids, sampled and not.
        response_mask: (R,) 1 on the tokens that this row trains.
        rollout_log_probs: (R,) the engine's, natural log, 0 where the mask is 0.
        group: `completed`, or why it was discarded.
        min_version: of the weights that the rollout's calls saw.
        max_version: likewise.
    """

    uid: str
    rollout_id: str
    row: int
    task: str
    harness: str
    reward: float
    prompts: list[int]
    responses: list[int]
    response_mask: list[int]
    rollout_log_probs: list[float]
    group: str
    min_version: int
    max_version: int


def token_rows(chosen: Chosen, config: CollectorConfig) -> Iterator[TokenRow]:
    """The rows of a rollout; evaluation has none, nor has a rollout without a vote."""
    settled = settle(chosen.attempt, config)
    if settled is None or settled.trajectory is None:
        return
    made = settled.trajectory
    for n, row in enumerate(made.rows):
        ids, at = unpack_ids(row.ids), row.prompt_len
        yield TokenRow(
            uid=chosen.group.group_id, rollout_id=made.rollout_id, row=n, task=made.task, harness=made.harness,
            reward=made.reward, prompts=ids[:at], responses=ids[at:], response_mask=unpack_mask(row.response_mask)[at:],
            rollout_log_probs=unpack_floats(row.logprobs)[at:], group=group_state(chosen.group),
            min_version=made.min_version, max_version=made.max_version,
        )  # fmt: skip
