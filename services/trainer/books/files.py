"""What a run leaves in its folder: `metrics.jsonl`, `summary.json`, `weights/`, `checkpoints/` and `journal/`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from services.trainer.books.ledger import Ledger
from services.trainer.books.metrics_file import METRICS, MetricsFile
from services.trainer.journal.checkpoints import Checkpoints
from services.trainer.journal.state import RunState


class Summary(msgspec.Struct, kw_only=True):
    """`summary.json`. Token and call counts are of training rollouts; ``tokens_sampled`` is the engine's own count, and
    ``tokens_sampled == tokens_trained + tokens_masked + tokens_dropped + tokens_unaccounted``.

    Attributes:
        run_id: the run.
        ok: the run reached its end.
        error: one line when it did not, or when the books do not balance.
        seed: of the run.
        model: folder that training started from.
        harness: adapter that rollouts ran in.
        reward: `verifier`, or `coin` for a control run.
        mode: of the proxy, `record` or `splice`.
        eval_episodes: held-out episodes per evaluation, as configured.
        heldout_before: success on held-out tasks before training, None where it was not measured.
        heldout_after: after it.
        unscored_before: held-out episodes that the infrastructure lost, before training.
        unscored_after: after it.
        evaluations: success on held-out tasks by label, in the order of measurement (`before`, `step-10`, ..., `after`).
        steps: training steps that ended.
        steps_skipped: of them, those without a group to train on.
        version: weight version that was served last.
        rollouts: training rollouts that were started.
        groups_completed: groups that were trained on.
        groups_discarded: groups that were not.
        discard_reasons: groups per reason.
        trajectories: rollouts that were trained on.
        rows: training rows that they were merged into; one each where no history was split.
        calls_recorded: model calls with a durable record.
        tokens_sampled: by vLLM's counter.
        tokens_trained: with response_mask 1.
        tokens_masked: in a row with response_mask 0, or of calls that are not trained by rule.
        tokens_dropped: of attempts, groups and calls that were not trained on.
        tokens_unaccounted: sampled tokens that no record explains; 0 unless something is wrong.
        token_reasons: tokens per reason of masking or dropping.
        tasks_quarantined: tasks that were left out, each with the number of its verifier failures.
        max_logprob_gap: largest difference (nats) of log-probs, engine and learner, over the tokens that were trained by the
            very weights that had sampled them; None where there were none.
        wall_s: seconds from the start of the run.
    """

    run_id: str
    ok: bool = False
    error: str = "the run has not ended, or its trainer died"
    seed: int = 0
    model: str = ""
    harness: str = ""
    reward: str = ""
    mode: str = ""
    eval_episodes: int = 0
    heldout_before: float | None = None
    heldout_after: float | None = None
    unscored_before: int = 0
    unscored_after: int = 0
    evaluations: dict[str, float] = {}
    steps: int = 0
    steps_skipped: int = 0
    version: int = 0
    rollouts: int = 0
    groups_completed: int = 0
    groups_discarded: int = 0
    discard_reasons: dict[str, int] = {}
    trajectories: int = 0
    rows: int = 0
    calls_recorded: int = 0
    tokens_sampled: int = 0
    tokens_trained: int = 0
    tokens_masked: int = 0
    tokens_dropped: int = 0
    tokens_unaccounted: int = 0
    token_reasons: dict[str, int] = {}
    tasks_quarantined: dict[str, int] = {}
    max_logprob_gap: float | None = None
    wall_s: float = 0.0

    def enter(self, state: RunState, ledger: Ledger) -> None:
        """Takes over what a state and its books say."""
        balance = ledger.balance()
        self.steps, self.steps_skipped, self.version = state.step, state.skipped, state.version
        self.rollouts, self.calls_recorded = ledger.rollouts, ledger.calls_recorded
        self.trajectories, self.rows = ledger.trajectories, ledger.rows
        self.groups_completed, self.groups_discarded = ledger.groups_completed, sum(ledger.drops.values())
        self.discard_reasons, self.token_reasons = dict(sorted(ledger.drops.items())), balance.reasons
        self.tokens_sampled, self.tokens_trained = balance.sampled, balance.trained
        self.tokens_masked, self.tokens_dropped = balance.masked, balance.dropped
        self.tokens_unaccounted, self.max_logprob_gap = balance.unaccounted, ledger.max_logprob_gap
        self.tasks_quarantined = dict(ledger.quarantined)
        self.evaluations = {label: e.success for label, e in state.evaluated.items()}
        if before := state.evaluated.get("before"):
            self.heldout_before, self.unscored_before = before.success, before.unscored
        if after := state.evaluated.get("after"):
            self.heldout_after, self.unscored_after = after.success, after.unscored


class RunFiles:
    """The folder of one run.

    Args:
        folder: it.
        keep: checkpoints that are kept; 0 keeps all.
    """

    def __init__(self, folder: Path, keep: int = 0) -> None:
        self._folder = folder
        self.weights = folder / "weights"
        self.weights.mkdir(parents=True, exist_ok=True)
        (folder / "checkpoints").mkdir(exist_ok=True)
        self.journal = folder / "journal"
        self.checkpoints = Checkpoints(folder / "checkpoints", keep)
        self.metrics = MetricsFile(folder / METRICS)

    def has_summary(self) -> bool:
        """Whether a trainer wrote of this run before."""
        return (self._folder / "summary.json").exists()

    def write_summary(self, summary: Summary) -> None:
        """Replaces `summary.json` in one step."""
        file = self._folder / "summary.json"
        part = file.with_suffix(".part")
        part.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
        part.replace(file)
