"""Starts groups of rollouts and hands out what became of them, in the order in which they close."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from services.trainer.batch.samples import Beside, mentioned
from services.trainer.groups.tasks import sampling_seed
from services.trainer.journal.history import History
from services.trainer.journal.records import Closed, Planned
from services.trainer.journal.state import Group
from shared.bus import Bus
from shared.config import Config
from shared.errors import Cancelled, FidelityError, ForgeError, Rejected
from shared.events import (
    BlobRef,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutCancel,
    RolloutStart,
    Trajectory,
)
from shared.ids import check_id, session_id
from shared.store.blobs import Blobs

log = logging.getLogger(__name__)

_LONGEST_PREFIX = 80
_AGAIN, _AGAINS = "-again", 3
_trajectories = msgspec.json.Decoder(list[Trajectory])


def outcomes_text(results: Iterable[Closed]) -> str:
    """The outcomes of groups for a person: `EngineError x 3, finished x 1`."""
    totals = sum((Counter(r.outcomes) for r in results), Counter[str]())
    return ", ".join(f"{outcome} x {count}" for outcome, count in sorted(totals.items())) or "nothing was heard of them"


def rollout_name(group_id: str, number: int) -> str:
    """Id of a rollout of a group, numbered from 0."""
    return f"{group_id}-r{number}"


def strangers(group_id: str, size: int, trajectories: Sequence[Trajectory]) -> list[str]:
    """Rollouts of trajectories that a group of so many was not started with, or that have a second vote."""
    votes = Counter(t.rollout_id for t in trajectories)
    votes.subtract(rollout_name(group_id, n) for n in range(size))
    return sorted(+votes)


async def wait_until(changed: asyncio.Event, until: float, names: Sequence[str]) -> None:
    """Returns with an event.

    Raises:
        ForgeError: it did not come by a time of the event loop; these groups were waited for.
    """
    try:
        async with asyncio.timeout_at(until):
            await changed.wait()
    except TimeoutError:
        waiting = ", ".join(names)
        raise ForgeError(f"groups did not close in time: {waiting}; see the logs of orchestrator and collector") from None


def group_id(run_id: str, name: str) -> str:
    """The id of a run's group on the bus, which knows each id once, over all runs."""
    return f"{run_id[-_LONGEST_PREFIX:].strip('-')}-{name}"


class GroupDesk:
    """The groups of one run.

    What is asked for and what comes is in the run's history before anybody is told. `open` and `next` are about groups of
    purpose `eval`; training takes its own from the history's state.
    """

    def __init__(self, config: Config, bus: Bus, blobs: Blobs, history: History) -> None:
        self._config = config
        self._bus = bus
        self._blobs = blobs
        self._history = history
        self._prefix = group_id(config.run.id, "")
        self._awaited: list[str] = []

    @property
    def open(self) -> int:
        """Evaluation groups that were started and whose result was not handed out."""
        return len(self._awaited)

    async def start(self, plan: Planned) -> None:
        """Asks the orchestrator for the rollouts of a group. One that was asked for before, by an earlier trainer, is not
        planned again; if it has closed, its result is there.

        Args:
            plan: of the group; the version that is served now is noted with it.
        """
        state = self._history.state
        if plan.name not in state.groups:
            await self._history.note(msgspec.structs.replace(plan, version=state.version))
        if plan.purpose == "eval":
            self._awaited.append(plan.name)
        await self._ask(state.groups[plan.name])

    async def reopen(self) -> None:
        """Asks for the rollouts of all open training groups again: an earlier trainer may have died over it. Rollouts that are
        known are not started twice."""
        for group in self._history.state.open():
            await self._ask(group)

    async def deliver(self, message: Message) -> None:
        """Takes a message from the bus; one about a group that is not open (any more) is noted and left.

        Raises:
            Rejected: it is no group, or one with others' rollouts.
            StoreUnavailable: its body could not be fetched.
            JournalError: it could not be kept.
        """
        if not isinstance(message, GroupCompleted | GroupDiscarded):
            raise Rejected(f"the trainer has no use for {message.event_id}")
        name = message.group_id.removeprefix(self._prefix)
        group = self._history.state.groups.get(name)
        if group is None or group.closed is not None or not message.group_id.startswith(self._prefix):
            log.warning("group %s is not waited for: a repeated message, or not of this run", message.group_id)
            return
        closed, beside = await self._closed(group.plan, message)
        async with self._history.beside.lock:
            if group.closed is None:
                await self._history.beside.keep(beside)
                await self._history.note(closed)

    async def next(self, until: float) -> Group:
        """The next evaluation group that closes.

        Args:
            until: time of the event loop to wait for.

        Raises:
            ForgeError: none closed by then.
        """
        while True:
            changed, groups = self._history.changed, self._history.state.groups
            if name := next((name for name in self._awaited if groups[name].closed), None):
                self._awaited.remove(name)
                group = groups[name]
                if Cancelled.__name__ not in group.result.outcomes or name.count(_AGAIN) == _AGAINS:
                    return group
                # a trainer or orchestrator was stopped meanwhile
                await self.start(msgspec.structs.replace(group.plan, name=name + _AGAIN))
                continue
            await wait_until(changed, until, self._awaited)

    def sampled_apart(self) -> int:
        """Tokens that were sampled for evaluation groups of the history."""
        groups = self._history.state.groups.values()
        return sum(g.closed.tokens.sampled for g in groups if g.plan.purpose == "eval" and g.closed)

    async def cancel(self, groups: Sequence[Group], reason: str) -> None:
        """Asks the orchestrator to end the rollouts of groups."""
        for plan in (group.plan for group in groups):
            for r in range(plan.size):
                group_id = self._prefix + plan.name
                about = RolloutCancel(
                    run_id=self._config.run.id,
                    rollout_id=rollout_name(group_id, r),
                    group_id=group_id,
                    purpose=plan.purpose,
                    reason=reason,
                )
                await self._bus.publish(about)

    async def _ask(self, group: Group) -> None:
        group_id = check_id(self._prefix + group.plan.name, "group id")
        for r in range(group.plan.size):
            if group.closed is None:
                await self._bus.publish(self._rollout(group.plan, group_id, r))

    async def _closed(self, plan: Planned, message: GroupCompleted | GroupDiscarded) -> tuple[Closed, Beside]:
        """What is noted of a group, and what its rows refer to: the store keeps that for a while only."""
        sessions = [session_id(rollout, number) for rollout, numbers in message.attempts.items() for number in numbers]
        closed = Closed(name=plan.name, tokens=message.tokens, outcomes=message.outcomes, sessions=sessions)
        if isinstance(message, GroupDiscarded):
            return msgspec.structs.replace(closed, refused=message.reason), {}
        if wrong := strangers(message.group_id, plan.size, message.trajectories):
            raise Rejected(f"group {message.group_id} was not started with {wrong}")
        try:
            trajectories = await self._trajectories(plan, message)
            if plan.purpose == "eval":  # nobody trains on them
                trajectories = [msgspec.structs.replace(t, rows=[]) for t in trajectories]
            hashes = sorted(mentioned(trajectories))
            beside = {sha: await self._blobs.get(BlobRef(key=sha, size=0, sha256=sha)) for sha in hashes}
        except FidelityError as e:
            log.warning("group %s: %s", message.group_id, e)
            return msgspec.structs.replace(closed, refused=FidelityError.__name__), {}
        return msgspec.structs.replace(closed, trajectories=trajectories), beside

    async def _trajectories(self, plan: Planned, message: GroupCompleted) -> list[Trajectory]:
        if message.ref is None:
            return message.trajectories
        try:
            trajectories = _trajectories.decode(await self._blobs.get(message.ref))
        except msgspec.DecodeError as e:
            raise FidelityError(f"blob {message.ref.key[:12]} holds no trajectories: {e}") from e
        if wrong := strangers(message.group_id, plan.size, trajectories):
            raise FidelityError(f"blob {message.ref.key[:12]} has {wrong}")
        return trajectories

    def _rollout(self, plan: Planned, group_id: str, number: int) -> RolloutStart:
        sampling = {
            "temperature": self._config.proxy.temperature,
            "max_tokens": self._config.trainer.max_tokens,
            "seed": sampling_seed(self._config.run.seed, plan.seed, number),
        }
        return RolloutStart(
            run_id=self._config.run.id,
            rollout_id=rollout_name(group_id, number),
            group_id=group_id,
            purpose=plan.purpose,
            group_size=plan.size,
            task_dir=plan.task,
            harness=self._config.trainer.harness,
            sampling=sampling,
        )
