"""Tasks that are being made."""

from __future__ import annotations

from shared.events.base import Id, Message


class TaskMessage(Message, frozen=True, kw_only=True):
    """A message about one task that is being made."""

    task_id: Id
    detail: str = ""

    @property
    def key(self) -> str:
        return self.task_id

    @property
    def event_id(self) -> str:
        return f"{str(type(self).__struct_config__.tag).replace('.', '-')}-{self.task_id}"


class SynthStart(TaskMessage, frozen=True, kw_only=True, tag="synth.start"):
    """Asks synth to make a task from a seed scenario."""


class TaskProposed(TaskMessage, frozen=True, kw_only=True, tag="task.proposed"):
    """A task was proposed."""


class TaskRejected(TaskMessage, frozen=True, kw_only=True, tag="task.rejected"):
    """A task was turned down; `detail` says why."""


class TaskBuilt(TaskMessage, frozen=True, kw_only=True, tag="task.built"):
    """A task's environment, verifier and oracle were written."""


class TaskTried(TaskMessage, frozen=True, kw_only=True, tag="task.tried"):
    """A task was tried by rollouts."""


class TaskAccepted(TaskMessage, frozen=True, kw_only=True, tag="task.accepted"):
    """A task passed every gate."""
