"""Where the tokens of a run went, and how many groups, rollouts and calls there were. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from shared.events import LATE, TokenCounts

LOST = "lost"
"""Reason of tokens that the engine sampled in calls of which no record was left."""


@dataclass(slots=True)
class Ledger:
    """Sums over the training rollouts of a run; held-out episodes are not in it.

    Attributes:
        rollouts: rollouts that were started.
        groups_completed: groups that were trained on.
        drops: groups that were not, per reason.
        trajectories: those that were trained on.
        rows: training rows that they were merged into.
        recorded: sampled tokens that records tell of: trained + masked + dropped, by the collector's counts.
        trained: of them.
        masked: of them.
        dropped: of them.
        reasons: tokens per reason of masking or dropping.
        engine_tokens: tokens that the engine itself counted while training groups were open.
        engine_lost: the engine was started anew meanwhile, so that it counted too few.
        sessions: calls with a record and without one, per recording session that was sealed.
        counted: recording sessions whose tokens groups tell of.
        late: tokens of recording sessions that were complete only after their group was closed.
        quarantined: tasks that are left out, each with the number of its verifier failures.
        max_logprob_gap: largest difference of log-probs, engine and learner, over all trained on-policy tokens (nats); None
            before there are any.
    """

    rollouts: int = 0
    groups_completed: int = 0
    drops: dict[str, int] = field(default_factory=dict)
    trajectories: int = 0
    rows: int = 0
    recorded: int = 0
    trained: int = 0
    masked: int = 0
    dropped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    engine_tokens: int = 0
    engine_lost: bool = False
    sessions: dict[str, tuple[int, int]] = field(default_factory=dict)
    counted: set[str] = field(default_factory=set)
    late: dict[str, TokenCounts] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    max_logprob_gap: float | None = None

    def complete(self, tokens: TokenCounts, sessions: Iterable[str]) -> None:
        """A group was trained on, with the tokens of these recording sessions."""
        self.groups_completed += 1
        self._add(tokens)
        self.counted.update(sessions)

    def drop(self, tokens: TokenCounts, reason: str, sessions: Iterable[str]) -> None:
        """A group was not trained on, for `reason`."""
        self.drops[reason] = self.drops.get(reason, 0) + 1
        self._add(all_dropped(tokens, reason))
        self.counted.update(sessions)

    def compare(self, gap: float) -> None:
        """Trained on-policy tokens differ by up to so many nats between engine and learner."""
        self.max_logprob_gap = max(gap, self.max_logprob_gap or 0.0)

    def seal(self, session: str, recorded: int, unrecorded: int) -> None:
        """A recording session ended, with so many calls that have a record and so many without. The same one counts once."""
        self.sessions[session] = (recorded, unrecorded)

    def miss(self, session: str, tokens: TokenCounts) -> None:
        """A recording session is said to have come too late for its group. Said twice, or of one that a group counts all the
        same (its collector lost its memory in between), it counts once."""
        self.late[session] = tokens

    @property
    def calls_recorded(self) -> int:
        """Model calls with a durable record."""
        return sum(recorded for recorded, _ in self.sessions.values())

    def balance(self) -> Balance:
        """The books as they stand."""
        late = [tokens for session, tokens in self.late.items() if session not in self.counted]
        missed = sum(tokens.sampled for tokens in late)
        recorded = self.recorded + missed
        sampled = max(self.engine_tokens, recorded) if self.engine_lost else self.engine_tokens
        rest = sampled - recorded
        lost = max(rest, 0) if any(unrecorded for _, unrecorded in self.sessions.values()) else 0
        return Balance(
            sampled=sampled,
            trained=self.trained,
            masked=self.masked,
            dropped=self.dropped + missed + lost,
            unaccounted=rest - lost,
            reasons=dict(sorted((Counter(self.reasons) + Counter({LATE: missed, LOST: lost})).items())),
        )

    def _add(self, tokens: TokenCounts) -> None:
        self.recorded += tokens.sampled
        self.trained += tokens.trained
        self.masked += tokens.masked
        self.dropped += tokens.dropped
        self.reasons = dict(Counter(self.reasons) + Counter(tokens.reasons))


def all_dropped(tokens: TokenCounts, reason: str) -> TokenCounts:
    """The counts of a group that is not trained on: what of it was to be trained, if anything, is dropped for `reason`."""
    reasons = dict(Counter(tokens.reasons) + Counter({reason: tokens.trained}))
    return msgspec.structs.replace(tokens, trained=0, dropped=tokens.dropped + tokens.trained, reasons=reasons)


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """``sampled == trained + masked + dropped + unaccounted``, and `unaccounted` is 0 unless something is wrong.

    Attributes:
        sampled: by the engine's own count, or by the records' where the engine was started anew and counts fewer.
        trained: response_mask 1.
        masked: in a row with response_mask 0, or of calls that are not trained by rule.
        dropped: of attempts and groups that were not trained on, or of calls without a record.
        unaccounted: sampled tokens that no record explains (negative: records of tokens that the engine did not count).
        reasons: tokens per reason of masking or dropping.
    """

    sampled: int
    trained: int
    masked: int
    dropped: int
    unaccounted: int
    reasons: dict[str, int]
