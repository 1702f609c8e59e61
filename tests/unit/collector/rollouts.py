"""Rollouts made up for tests: a harness that branches, retries, starts subagents and rewrites its history, and the records
of its calls as a proxy would publish them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from shared.events import CallRecorded, Message, SessionSealed, TokenCounts
from shared.lineage import Lineage
from shared.packing import digest, pack_floats, pack_ids

M = TypeVar("M", bound=Message)
RUN, GROUP = "run", "g1"
few = settings(max_examples=40, deadline=None)
"""Examples enough to find what is there, few enough for a suite of seconds on a busy machine."""


def about(rollout: str = "r1", attempt: int = 1, **more: Any) -> dict[str, Any]:
    """Fields that every message about an attempt has."""
    return {"run_id": RUN, "group_id": GROUP, "rollout_id": rollout, "attempt": attempt, **more}


def ended(rollout: str = "r1", attempt: int = 1, **more: Any) -> dict[str, Any]:
    """Fields that every message has that ends an attempt."""
    return about(rollout, attempt, **{"group_size": 4, "task": "task", "harness": "h", **more})


@dataclass
class Session:
    """What a proxy records of one session. `prompts` and `completions` are the whole truth, by call number."""

    rollout: str = "r1"
    attempt: int = 1
    records: list[CallRecorded] = field(default_factory=list)
    prompts: dict[int, list[int]] = field(default_factory=dict)
    completions: dict[int, list[int]] = field(default_factory=dict)
    lineage: Lineage = field(default_factory=Lineage)

    @property
    def name(self) -> str:
        return f"{self.rollout}-a{self.attempt}"

    def full(self, seq: int) -> list[int]:
        return self.prompts[seq] + self.completions[seq]

    def call(self, prompt: Sequence[int], completion: Sequence[int], *, as_root: bool = False, **more: Any) -> int:
        """Records the next call and returns its number. `as_root` sends the whole prompt though there is a parent."""
        seq = len(self.records) + 1
        packed = pack_ids(prompt)
        parent = None if as_root else self.lineage.parent(packed)
        length = parent.length if parent else 0
        fields: dict[str, Any] = {
            "seq": seq, "session_id": self.name, "api": "openai.chat", "model": "m", "finish_reason": "stop",
            "parent_seq": parent.seq if parent else None, "parent_len": length,
            "parent_status": "extends" if parent else "root",
            "prompt_len": len(prompt), "prompt_delta": pack_ids(prompt[length:]), "prompt_digest": digest(prompt),
            "completion": pack_ids(completion), "logprobs": pack_floats(logprob(seq, i) for i in range(len(completion))),
            "weight_version_start": 1, "weight_version_end": 1,
        }  # fmt: skip
        self.records.append(CallRecorded(**about(self.rollout, self.attempt), **{**fields, **more}))
        self.prompts[seq], self.completions[seq] = list(prompt), list(completion)
        self.lineage.add(seq, packed + pack_ids(completion))
        return seq

    def sealed(self, **more: Any) -> SessionSealed:
        return SessionSealed(**about(self.rollout, self.attempt), session_id=self.name, **{"calls": len(self.records), **more})

    @property
    def sampled(self) -> int:
        """Tokens that the engine sampled: completions, and one for each that it scored again."""
        return sum(map(len, self.completions.values())) + sum(r.replay_gap is not None for r in self.records)


def logprob(seq: int, i: int) -> float:
    """A log-probability that names its place, exact in float32."""
    return -(seq + i / 64)


def changed(message: M, **fields: Any) -> M:
    """A message with other fields."""
    return msgspec.structs.replace(message, **fields)


def adds_up(counts: TokenCounts) -> bool:
    """Whether every token is somewhere, and every token that is not trained has a reason."""
    untrained = counts.masked + counts.dropped
    return counts.sampled == counts.trained + untrained and sum(counts.reasons.values()) == untrained


tokens = st.integers(0, 2)  # so few that unrelated calls coincide now and then


@st.composite
def sessions(draw: st.DrawFn, max_calls: int = 9) -> Session:
    """A session of any shape."""
    session = Session()
    for _ in range(draw(st.integers(0, max_calls))):
        session.call(
            draw(_prompts(session)),
            draw(st.lists(tokens, max_size=4)),
            as_root=draw(st.booleans()),
            role=draw(st.sampled_from(["main"] * 4 + ["sub", "summary", "aux", "judge"])),
            constrained=draw(st.integers(0, 7)) == 0,
            replay_gap=draw(st.sampled_from([None, None, None, 0.0, 0.5])),
            delivery=draw(st.sampled_from(["sent", "sent", "sent", "cut"])),
            finish_reason=draw(st.sampled_from(["stop", "length", "tool_calls"])),
        )
    return session


@st.composite
def _prompts(draw: st.DrawFn, session: Session) -> list[int]:
    kind = draw(st.sampled_from(["extend"] * 4 + ["retry", "rewrite", "compact", "root"])) if session.records else "root"
    news = draw(st.lists(tokens, min_size=1, max_size=3))
    if kind == "root":  # a subagent, or the session's first call
        return news
    seq = draw(st.integers(1, len(session.records)))
    if kind == "retry":
        return session.prompts[seq]
    if kind == "compact":  # the history gives way to a summary that the model wrote of it
        return [8, *session.completions[seq], *news]
    prompt = session.full(seq) + news
    if kind == "rewrite":
        at = draw(st.integers(0, len(prompt) - 1))
        prompt[at] = 7
    return prompt
