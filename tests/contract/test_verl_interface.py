"""The names of veRL 0.9.1 that this project calls or offers: a change of its interface is seen here first."""

from __future__ import annotations

import dataclasses
import inspect
from importlib.metadata import version
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from shared.config import ActorConfig, AlgorithmConfig, OptimConfig, PolicyLossConfig, RolloutCorrectionConfig
from shared.config.actor import KlLossType
from shared.config.algorithm import RS_CALL, RS_TOKEN

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

OURS = {
    "AlgorithmConfig": {"loss_weighting", "loss_scale_factor"},  # veRL: actor.loss_agg_mode, actor.loss_scale_factor
}
"""Settings that veRL does not have in that place."""


@pytest.fixture(scope="module", autouse=True)
def platform() -> None:
    import services.trainer.verl.cpu_platform  # noqa: F401 - before all else of veRL


def values(section: type, field: str) -> tuple[str, ...]:
    found: tuple[str, ...] = get_args(get_type_hints(section)[field])
    return found


def takes(function: Any, *names: str) -> None:
    assert set(names) <= set(inspect.signature(function).parameters), function


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("verl") == "0.9.1"


def test_settings_have_verls_names() -> None:
    from verl.trainer.config import AlgoConfig
    from verl.trainer.config import RolloutCorrectionConfig as TheirCorrection
    from verl.workers.config import FSDPActorConfig, FSDPOptimizerConfig
    from verl.workers.config import PolicyLossConfig as TheirLoss

    for ours, theirs in (
        (AlgorithmConfig, AlgoConfig), (RolloutCorrectionConfig, TheirCorrection), (ActorConfig, FSDPActorConfig),
        (PolicyLossConfig, TheirLoss), (OptimConfig, FSDPOptimizerConfig),
    ):  # fmt: skip
        known = {f.name for f in dataclasses.fields(theirs)}
        assert {f.name for f in msgspec.structs.fields(ours)} - known == OURS.get(ours.__name__, set())


def test_their_values_are_verls() -> None:
    import torch
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY, kl_penalty
    from verl.trainer.ppo.rollout_corr_helper import SUPPORTED_ROLLOUT_RS_OPTIONS

    assert set(values(AlgorithmConfig, "adv_estimator")) <= {str(getattr(n, "value", n)) for n in ADV_ESTIMATOR_REGISTRY}
    assert set(values(PolicyLossConfig, "loss_mode")) <= set(POLICY_LOSS_REGISTRY)
    assert {*RS_TOKEN, *RS_CALL} == SUPPORTED_ROLLOUT_RS_OPTIONS
    for kind in get_args(KlLossType):
        assert kl_penalty(torch.zeros(1), torch.zeros(1), kind).item() == 0


def test_functions_take_what_they_are_given() -> None:
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY, agg_loss
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask
    from verl.workers.utils.losses import ppo_loss

    for mode in values(PolicyLossConfig, "loss_mode"):
        takes(
            POLICY_LOSS_REGISTRY[mode], "old_log_prob", "log_prob", "advantages", "response_mask", "loss_agg_mode", "config",
            "rollout_is_weights",
        )  # fmt: skip
    takes(agg_loss, "loss_mat", "loss_mask", "loss_agg_mode", "dp_size", "batch_num_tokens")
    takes(
        compute_rollout_correction_and_rejection_mask, "old_log_prob", "rollout_log_prob", "response_mask", "rollout_is",
        "rollout_is_threshold", "rollout_is_batch_normalize", "rollout_rs", "rollout_rs_threshold",
    )  # fmt: skip
    from services.trainer.learner.loss import policy_loss

    assert list(inspect.signature(policy_loss).parameters) == list(inspect.signature(ppo_loss).parameters)


def test_the_worker_has_the_calls_that_the_learner_makes() -> None:
    from verl.workers.engine_workers import TrainingWorker

    takes(TrainingWorker.train_batch, "data")
    takes(TrainingWorker.infer_batch, "data")
    takes(TrainingWorker.set_loss_fn, "loss_fn")
    takes(TrainingWorker.save_checkpoint, "local_path", "global_step")
    takes(TrainingWorker.load_checkpoint, "local_path", "del_local_after_load")
    takes(TrainingWorker.reset)
