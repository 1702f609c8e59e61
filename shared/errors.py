"""One small hierarchy of errors by boundary, and one table that says what follows from each.

The class names double as the `reason` of failed rollouts, so that logs, events and code use one word for one thing.
"""

from __future__ import annotations

from dataclasses import dataclass


class ForgeError(Exception):
    """Base of all errors that the project raises on purpose. The message says what to do."""


class ConfigError(ForgeError):
    """Configuration that cannot be used."""


class InvalidId(ConfigError):
    """An identifier that could not be a subject token."""


class TaskError(ForgeError):
    """A task folder that is missing, incomplete or malformed."""


class MakerError(ForgeError):
    """A task that could not be proposed, built or refined."""


class BudgetError(ForgeError):
    """What may be spent on making tasks is spent: money, calls or rollouts."""


class BusUnavailable(ForgeError):
    """The bus did not acknowledge within the time that was set."""


class BusRefused(BusUnavailable):
    """The bus does not let this user do that; trying again does not help."""


class Rejected(ForgeError):
    """A message that no number of deliveries could make acceptable; it becomes a dead letter."""


class StoreUnavailable(ForgeError):
    """The store did not answer within the time that was set."""


class StoreRefused(StoreUnavailable):
    """The store does not let this user do that; trying again does not help."""


class StoreWiped(StoreUnavailable):
    """The store lost the state that it held."""


class EngineError(ForgeError):
    """The inference engine refused, failed or did not answer."""


class SandboxError(ForgeError):
    """A sandbox could not be made, or was lost."""


class SandboxAway(SandboxError):
    """The machine, engine or cluster that has the sandboxes did not answer; they may be well."""


class ImageError(SandboxError):
    """The image of a sandbox could not be pulled, built or run."""


class Unschedulable(SandboxError):
    """No machine could be found for a sandbox in time."""


class OutOfMemory(SandboxError):
    """Memory ran out before a sandbox's agent ran, or on a machine that gave it no limit of its own."""


class Evicted(SandboxError):
    """A sandbox was put out of its machine, or the machine was lost."""


class QuotaError(SandboxError):
    """A quota of the cluster leaves no room for the sandbox at present."""


class StageTimeout(SandboxError):
    """A sandbox did not get past a stage in time."""


class ScheduleTimeout(StageTimeout, Unschedulable):
    """No machine was found for a sandbox within `orchestrator.stages.schedule_s`."""


class PullTimeout(StageTimeout, ImageError):
    """The image of a sandbox was not there within `orchestrator.stages.pull_s`."""


class BootTimeout(StageTimeout):
    """The runner of a sandbox did not run within `orchestrator.stages.boot_s`."""


class RunTimeout(StageTimeout):
    """A sandbox went on after all that may run in it should have ended: its runner hangs, or its machine does not tell."""


class HarnessError(ForgeError):
    """A harness program that could not be started at all."""


class HarnessCrash(HarnessError):
    """A harness program ended with an error before it made a model call."""


class VerifierError(ForgeError):
    """The verifier failed, hung, or left no usable reward."""


class VerifierTimeout(VerifierError):
    """The verifier was ended after its limit."""


class FidelityError(ForgeError):
    """Records of a rollout are missing, doubled or contradict each other."""


class ArchiveError(ForgeError):
    """An archive that is missing, incomplete or damaged, or something that is not in it."""


class AgentTimeout(ForgeError):
    """The agent used up its wall-clock time."""


class AgentIdle(AgentTimeout):
    """The agent made no model call for `orchestrator.stages.idle_s`."""


class AgentStorage(AgentTimeout):
    """The agent filled the disk that it was given."""


class AgentMemory(AgentTimeout):
    """The agent used up the memory that it was given, and its runner was killed with it."""


class Cancelled(ForgeError):
    """Somebody asked for the rollout to end."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What follows when a rollout's attempt ends for a reason.

    Attributes:
        retry: start a new attempt of the same rollout, if attempts are left.
        grade: run the verifier on what the agent left.
        reward_valid: the reward may be trained on.
        most: attempts in all, even if `orchestrator.attempts` allows more; None for as many as it allows.
    """

    retry: bool
    grade: bool
    reward_valid: bool
    most: int | None = None


POLICIES: dict[type[ForgeError], Policy] = {
    EngineError: Policy(retry=True, grade=False, reward_valid=False),
    SandboxError: Policy(retry=True, grade=False, reward_valid=False),
    FidelityError: Policy(retry=True, grade=False, reward_valid=False),
    BusUnavailable: Policy(retry=True, grade=False, reward_valid=False),
    StoreUnavailable: Policy(retry=True, grade=False, reward_valid=False),
    HarnessError: Policy(retry=False, grade=False, reward_valid=False),
    # The policy had no say in it. A program that never starts fails for good after two more tries.
    HarnessCrash: Policy(retry=True, grade=False, reward_valid=False, most=3),
    VerifierError: Policy(retry=False, grade=False, reward_valid=False),
    TaskError: Policy(retry=False, grade=False, reward_valid=False),
    Cancelled: Policy(retry=False, grade=False, reward_valid=False),
    # A policy timeout is the policy's doing: the state it reached is verified, unless its sandbox went with it; the group's
    # timeout policy decides what trains.
    AgentTimeout: Policy(retry=False, grade=True, reward_valid=True),
}


def policy_of(error: ForgeError | type[ForgeError]) -> Policy:
    """The policy of an error, by its nearest listed ancestor; an unlisted one is neither retried nor trained on."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        if ancestor in POLICIES:
            return POLICIES[ancestor]
    return Policy(retry=False, grade=False, reward_valid=False)
