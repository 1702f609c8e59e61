"""What of a configuration the learner is set up with, and what it could not learn under."""

from __future__ import annotations

import pytest

from services.trainer.run import learner_settings
from shared.config import resolve
from shared.errors import ConfigError


def test_the_learner_gets_what_the_configuration_says() -> None:
    sets = [
        "trainer.steps=7",
        "trainer.actor.clip_ratio=0.1",
        "trainer.optim.lr=0.5",
        "trainer.algorithm.gamma=0.9",
        "run.seed=3",
    ]
    config = resolve(None, sets, {}).config
    found = learner_settings(config)
    assert (found.algorithm, found.actor, found.optim) == (config.trainer.algorithm, config.trainer.actor, config.trainer.optim)
    assert (found.steps, found.seed, found.temperature) == (7, 3, 1.0)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["proxy.temperature=0"], "greedy rollouts do not explore"),
        (["trainer.actor.ppo_max_token_len_per_gpu=4095"], "ppo_max_token_len_per_gpu = 4095 to as many or more"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_before_a_rollout(sets: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        learner_settings(resolve(None, sets, {}).config)
