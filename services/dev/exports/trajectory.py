"""A rollout as an ATIF document: its last main conversation, with all others as trajectories beside it. Pure.

A call that several conversations share is told once with its metrics; elsewhere its steps are marked as copied context.
"""

from __future__ import annotations

from msgspec.structs import replace

from services.collector.calls import restore
from services.dev.exports import atif
from services.dev.exports.content import Images
from services.dev.exports.selection import Chosen
from services.dev.exports.steps import Steps, sums
from services.dev.fates import call_fate
from services.dev.transcript import Conversation, conversations, new_messages
from shared.ids import session_id

_UNKNOWN = "unknown"
"""Version of the harness: the format wants one, and no record has it."""


def document(chosen: Chosen, images: Images) -> atif.Trajectory | None:
    """The document of a rollout; None where no reply reached its harness.

    Args:
        chosen: the rollout.
        images: that will lie beside it.

    Raises:
        FidelityError: its records contradict each other.
    """
    found = conversations(chosen.attempt.calls, chosen.attempt.sealed)
    if not found:
        return None
    first = max(found, key=lambda c: (c.last.role == "main", c.last.seq))
    teller = _Teller(chosen, images)
    made = [teller.tell(n, c) for n, c in enumerate([first, *(c for c in found if c is not first)])]
    extra = {
        "reward": chosen.reward, "task": chosen.rollout.task, "purpose": chosen.rollout.purpose,
        "group_id": chosen.group.group_id, "attempt": chosen.attempt.number,
    }  # fmt: skip
    return replace(made[0], subagent_trajectories=made[1:] or None, extra={**(made[0].extra or {}), **extra})


def without_ids(trajectory: atif.Trajectory) -> atif.Trajectory:
    """The same without token ids and what goes with them."""
    none = {"prompt_token_ids": None, "completion_token_ids": None, "logprobs": None}
    steps = [s if s.metrics is None else replace(s, metrics=replace(s.metrics, **none)) for s in trajectory.steps]
    others = [without_ids(t) for t in trajectory.subagent_trajectories or ()]
    return replace(trajectory, steps=steps, subagent_trajectories=others or None)


class _Teller:
    """Tells the conversations of a rollout, one after the other."""

    def __init__(self, chosen: Chosen, images: Images) -> None:
        self._chosen, self._images = chosen, images
        self._calls = {c.seq: c for c in restore(chosen.attempt.records)}
        self._told: set[int] = set()

    def tell(self, number: int, conversation: Conversation) -> atif.Trajectory:
        """A conversation; the document's first has the number 0."""
        rollout, last = self._chosen.rollout, conversation.last
        steps = self._steps(conversation)
        return atif.Trajectory(
            schema_version=atif.VERSION,
            session_id=session_id(rollout.rollout_id, self._chosen.attempt.number),
            trajectory_id=f"{rollout.rollout_id}-{number}" if number else rollout.rollout_id,
            agent=atif.Agent(
                name=rollout.harness, version=_UNKNOWN, model_name=last.model, tool_definitions=conversation.tools or None
            ),
            steps=steps,
            final_metrics=sums(steps),
            extra={"role": last.role, **({"thread": last.thread} if last.thread else {})},
        )

    def _steps(self, conversation: Conversation) -> list[atif.Step]:
        steps, chosen = Steps(self._images), self._chosen
        for record in conversation.calls:
            copied = record.seq in self._told
            for message in new_messages(record):
                steps.add_message(message, copied)
            fate = call_fate(record.seq, chosen.attempt, chosen.rollout, chosen.group)
            steps.add_reply(self._calls[record.seq], fate, copied)
            self._told.add(record.seq)
        return steps.done
