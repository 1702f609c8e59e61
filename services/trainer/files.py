"""What a run leaves in its folder: `metrics.jsonl`, `summary.json`, `weights/` and `checkpoints/`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from services.trainer.ledger import Ledger
from services.trainer.ports import Learner


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

    def enter(self, ledger: Ledger) -> None:
        """Takes over what the books say."""
        balance = ledger.balance()
        self.rollouts, self.calls_recorded = ledger.rollouts, ledger.calls_recorded
        self.trajectories, self.rows = ledger.trajectories, ledger.rows
        self.groups_completed, self.groups_discarded = ledger.groups_completed, ledger.drops.total()
        self.discard_reasons, self.token_reasons = dict(sorted(ledger.drops.items())), balance.reasons
        self.tokens_sampled, self.tokens_trained = balance.sampled, balance.trained
        self.tokens_masked, self.tokens_dropped = balance.masked, balance.dropped
        self.tokens_unaccounted, self.max_logprob_gap = balance.unaccounted, ledger.max_logprob_gap
        self.tasks_quarantined = dict(ledger.quarantined)


class RunFiles:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.weights = folder / "weights"
        self.weights.mkdir(parents=True, exist_ok=True)

    def add_metrics(self, step: int, at: float, metrics: dict[str, float]) -> None:
        """Appends a line to `metrics.jsonl`."""
        with (self._folder / "metrics.jsonl").open("ab") as f:
            f.write(msgspec.json.encode({"step": step, "at": at, **metrics}) + b"\n")

    def write_summary(self, summary: Summary) -> None:
        """Replaces `summary.json` in one step."""
        file = self._folder / "summary.json"
        part = file.with_suffix(".part")
        part.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
        part.replace(file)

    def read_summary(self) -> Summary | None:
        """What a trainer wrote of this run before, if one did.

        Raises:
            msgspec.DecodeError: the file is damaged.
        """
        try:
            return msgspec.json.decode((self._folder / "summary.json").read_bytes(), type=Summary)
        except FileNotFoundError:
            return None

    def save_checkpoint(self, learner: Learner, step: int) -> None:
        """Saves all that is needed to go on, in the layout of veRL's trainer."""
        root = self._folder / "checkpoints"
        learner.save_checkpoint(root / f"global_step_{step}" / "actor", step)
        latest = root / "latest_checkpointed_iteration.txt"
        part = latest.with_suffix(".part")
        part.write_text(str(step), encoding="utf-8")
        part.replace(latest)
