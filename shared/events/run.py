"""The run as a whole: commands and what the trainer reports."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from shared.events.base import Id, Message, Size

Nonce = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{0,40}\Z")]


class RunStart(Message, frozen=True, kw_only=True, tag="run.start"):
    """Asks the trainer to carry the configured run to its end, from where it stands.

    Attributes:
        nonce: tells this request from earlier ones; empty for the first.
    """

    nonce: Nonce = ""

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return "-".join(filter(None, ["run-start", self.run_id, self.nonce]))


class RunStaged(Message, frozen=True, kw_only=True, tag="run.staged"):
    """The trainer entered a stage of the run (`warm start`, `evaluate`, `train`, ...), with a text for people.

    Attributes:
        stage: short name.
        detail: what is being done, for a person.
        done: units of work done in this stage.
        total: units of work of this stage, 0 where unknown.
    """

    stage: str
    detail: str = ""
    done: Size = 0
    total: Size = 0

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return f"run-staged-{self.run_id}-{self.stage}-{self.done}-{self.at}"


class RunStepped(Message, frozen=True, kw_only=True, tag="run.stepped"):
    """One training step ended, its weights are being served.

    Attributes:
        step: counts from 1.
        version: the weight version that the step made.
        metrics: the step's metrics under veRL's names (`critic/rewards/mean`, `actor/grad_norm`, ...).
        groups: ids of those that it learned from.
    """

    step: Size
    version: Size
    metrics: dict[str, float]
    groups: list[Id] = []

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return f"run-stepped-{self.run_id}-{self.step}"


class RunEvaluated(Message, frozen=True, kw_only=True, tag="run.evaluated"):
    """Success on the held-out tasks was measured.

    Attributes:
        label: `before` or `after`.
        success: share of episodes with reward 1, in [0, 1].
        episodes: number of episodes that it rests on.
        version: weight version that was served.
    """

    label: str
    success: Annotated[float, Meta(ge=0, le=1)]
    episodes: Size
    version: Size

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return f"run-evaluated-{self.run_id}-{self.label}"


class RunFinished(Message, frozen=True, kw_only=True, tag="run.finished"):
    """The run ended.

    Attributes:
        nonce: of the request that it answers.
        ok: it reached its end.
        error: one line for a person when it did not.
        summary: the content of `summary.json` as far as known.
    """

    nonce: Nonce = ""
    ok: bool
    error: str = ""
    summary: dict[str, Any] = {}

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def event_id(self) -> str:
        return "-".join(filter(None, ["run-finished", self.run_id, self.nonce]))
