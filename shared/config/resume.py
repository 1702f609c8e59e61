"""Settings of a run that goes on after its trainer died."""

from __future__ import annotations

from shared.config.base import Positive, Section, Whole


class ResumeConfig(Section, frozen=True, kw_only=True):
    """How a run goes on after its trainer died.

    Attributes:
        restarts: times that `openforge run` starts a killed trainer again before a step ends; one death more ends the run.
            A trainer that ends with an error is not started again: it would end so again.
        max_difference: by which loss and gradient norm of a step that is learned again may differ from what was reported of it,
            relative to values above 1; more ends the run.
    """

    restarts: Whole = 3
    max_difference: Positive = 0.05
