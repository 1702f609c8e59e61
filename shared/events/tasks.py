"""Tasks that are being made."""

from __future__ import annotations

from shared.events.base import Count, Hex, Id, Message


class TaskMessage(Message, frozen=True, kw_only=True):
    """A message about one task that is being made.

    Attributes:
        task_id: the task; it keeps its id from proposal to the end.
        round: of its refinement; 0 before the first.
        detail: for people.
    """

    task_id: Id
    round: Count = 0
    detail: str = ""

    @property
    def key(self) -> str:
        return self.task_id

    @property
    def event_id(self) -> str:
        return f"{str(type(self).__struct_config__.tag).replace('.', '-')}-{self.task_id}-{self.round}"


class SynthStart(TaskMessage, frozen=True, kw_only=True, tag="synth.start"):
    """Asks synth to make the task of a number, or to go on with it. What was done before is not done again.

    Attributes:
        number: of its proposal; the same number is the same proposal.
    """

    number: Count = 0

    @property
    def event_id(self) -> str:
        """Another one each time: who asks again wants to be heard."""
        return f"synth-start-{self.task_id}-{self.at:.6f}"


class TaskProposed(TaskMessage, frozen=True, kw_only=True, tag="task.proposed"):
    """A task was proposed, and is unlike all before it.

    Attributes:
        name: of its folder, once it is accepted.
        domain: kind of its environment.
        family: of tasks that differ in their data only.
    """

    name: str = ""
    domain: str = ""
    family: str = ""


class TaskRejected(TaskMessage, frozen=True, kw_only=True, tag="task.rejected"):
    """A task was turned down, for good. Last message of the task.

    Attributes:
        gate: that it failed; empty if it was never built.
        reason: in a word that can be counted.
    """

    gate: str = ""
    reason: str = ""


class TaskBuilt(TaskMessage, frozen=True, kw_only=True, tag="task.built"):
    """A task's environment, verifier and solution were written.

    Attributes:
        digest: of its content.
    """

    digest: Hex = ""


class TaskTried(TaskMessage, frozen=True, kw_only=True, tag="task.tried"):
    """A task went through the gates, up to the first one that it failed.

    Attributes:
        gate: that it failed; empty if it passed all.
        reason: in a word that can be counted.
    """

    gate: str = ""
    reason: str = ""


class TaskRefined(TaskMessage, frozen=True, kw_only=True, tag="task.refined"):
    """A task that had failed was changed, and goes through the gates again.

    Attributes:
        digest: of its content now.
    """

    digest: Hex = ""


class TaskAccepted(TaskMessage, frozen=True, kw_only=True, tag="task.accepted"):
    """A task passed every gate. Last message of the task.

    Attributes:
        digest: of its content.
    """

    digest: Hex = ""
