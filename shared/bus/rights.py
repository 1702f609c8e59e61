"""What each user of the bus may do: a table of message types. The subjects are derived from it, none is written down.

A service may publish the messages that it makes, take those that it handles, and nothing else. What it takes it may also make
dead letters of. Answers come to an inbox that bears the user's name, so that nobody hears those of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from shared.bus.streams import STREAMS, filters_of, stream_of
from shared.events import (
    EVENTS,
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutCancel,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStart,
    RolloutStarted,
    RolloutTimedOut,
    RunEvaluated,
    RunFinished,
    RunStaged,
    RunStart,
    RunStepped,
    SessionSealed,
    SynthStart,
    TaskAccepted,
    TaskBuilt,
    TaskProposed,
    TaskRefined,
    TaskRejected,
    TaskTried,
    TrajectoryAssembled,
    TrajectoryDiscarded,
    WeightsFailed,
    WeightsLoaded,
    WeightsPublished,
)
from shared.keys import CLI, COLLECTOR, HISTORY, OPERATOR, ORCHESTRATOR, PROXY, SYNTH, TAP, TRAINER, USERS
from shared.subjects import DEAD, ROOT, dead_subject, pattern_of

Types = tuple[type[Message], ...]


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may do.

    Attributes:
        publishes: types that it publishes.
        consumes: types that it takes, by the durable name under which it does.
        reads: types that it reads back from their streams. A stream is read as a whole: its other types can be seen as well.
        remembers: it reads back whatever the streams keep, dead letters too.
        taps: it listens to whatever is published.
        looks: it asks how streams and their consumers do.
        makes: it makes the streams, where they are not there.
        keeps: it trims the streams, and keeps what nobody takes.
        all: it may do everything.
    """

    publishes: Types = ()
    consumes: Mapping[str, Types] = field(default_factory=dict)
    reads: Types = ()
    remembers: bool = False
    taps: bool = False
    looks: bool = False
    makes: bool = False
    keeps: bool = False
    all: bool = False


_OUTCOMES = (RolloutFinished, RolloutTimedOut, RolloutFailed)
_STAGES = (TaskProposed, TaskBuilt, TaskRefined, TaskTried)

RIGHTS: Mapping[str, Rights] = {
    PROXY: Rights(
        publishes=(CallRecorded, SessionSealed, RolloutScheduled, RolloutStarted, RolloutFinished, RolloutFailed),
        reads=(CallRecorded,),
    ),
    ORCHESTRATOR: Rights(
        publishes=(RolloutScheduled, RolloutStarted, *_OUTCOMES),
        consumes={"orchestrator": (RolloutStart, RolloutCancel, TrajectoryDiscarded)},
    ),
    COLLECTOR: Rights(
        publishes=(TrajectoryAssembled, TrajectoryDiscarded, GroupCompleted, GroupDiscarded),
        consumes={
            "collector-calls": (CallRecorded,),
            "collector-rollouts": (RolloutScheduled, SessionSealed, *_OUTCOMES),
            "collector-others": tuple(
                kind for kind in EVENTS
                if kind not in (CallRecorded, RolloutScheduled, SessionSealed, *_OUTCOMES)
                and kind not in (TrajectoryDiscarded, GroupCompleted, GroupDiscarded)
            ),
            "archive": EVENTS,
        },
        reads=(CallRecorded, RolloutScheduled, SessionSealed, *_OUTCOMES, GroupCompleted),
        looks=True,
        makes=True,
        keeps=True,
    ),
    TRAINER: Rights(
        publishes=(
            RunStaged, RunStepped, RunEvaluated, RunFinished, RolloutStart, RolloutCancel,
            WeightsPublished, WeightsLoaded, WeightsFailed,
        ),
        consumes={
            "trainer": (RunStart,),
            "trainer-groups": (GroupCompleted, GroupDiscarded),
            "trainer-sessions": (SessionSealed, TrajectoryDiscarded),
            "own-trainer": (GroupCompleted,),  # examples/own_trainer.py
            "my-trainer": (GroupCompleted,),  # docs/groups.md
        },
    ),
    SYNTH: Rights(
        publishes=(*_STAGES, TaskAccepted, TaskRejected, RolloutStart),
        consumes={"synth": (SynthStart, *_STAGES), "synth-outcomes": _OUTCOMES},
    ),
    CLI: Rights(
        publishes=(RunStart, RolloutStart, RunStaged, SynthStart),
        consumes={
            "evaluation": (*_OUTCOMES, TrajectoryAssembled, TrajectoryDiscarded, GroupCompleted, GroupDiscarded),
        },
        reads=(RunFinished,),
        taps=True,
        looks=True,
        makes=True,
    ),
    TAP: Rights(taps=True),
    HISTORY: Rights(remembers=True, taps=True),
    OPERATOR: Rights(all=True),
}  # fmt: skip


class Permissions(msgspec.Struct, frozen=True):
    """Subjects of a user; a pattern stands for all that it matches.

    Attributes:
        publish: what it may publish on.
        subscribe: what it may listen to.
        answers: it may answer a message that was given to it, once, wherever its publisher waits.
    """

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False


def inbox_of(user: str) -> str:
    """What the inboxes of a user begin with."""
    return f"_INBOX.{user}"


def durable_name(durable: str, run_id: str) -> str:
    """How a consumer is called that takes the messages of one run (`*`: of all, and then one name stands for all runs)."""
    return durable if run_id == "*" else f"{durable}-{run_id}"


def makes_streams(user: str) -> bool:
    """Whether a user makes the streams where they are not there; others wait for them. Unknown users are an operator's own."""
    return user not in RIGHTS or RIGHTS[user].makes or RIGHTS[user].all


def uses_streams(user: str) -> bool:
    """Whether a user needs the streams at all."""
    return user not in RIGHTS or RIGHTS[user] != Rights(taps=True)


def permissions_of(user: str, run_id: str = "*") -> Permissions:
    """The subjects of a user.

    Args:
        user: one of `shared.keys.USERS`.
        run_id: the one run whose bus it is; `*` for a bus of any number of runs. Those cannot be told apart by the names of
            their consumers: there a user can reach all consumers of a stream from which it takes anything.
    """
    rights = RIGHTS[user]
    if rights.all:
        return Permissions((">",), (">",))
    published = dict.fromkeys(_published(rights, run_id))
    listened = (f"{inbox_of(user)}.>", *((f"{ROOT}.>",) if rights.taps or rights.keeps else ()))
    return Permissions(tuple(published), listened, answers=rights.keeps)


def _published(rights: Rights, run_id: str) -> Iterator[str]:
    if rights == Rights(taps=True):
        return
    yield from (pattern_of(kind, run_id) for kind in rights.publishes)
    yield "$JS.API.INFO"
    yield from (f"$JS.API.STREAM.INFO.{stream.name}" for stream in STREAMS)
    read = STREAMS if rights.remembers else [stream_of(pattern_of(kind)) for kind in rights.reads]
    yield from dict.fromkeys(f"$JS.API.STREAM.MSG.GET.{stream.name}" for stream in read)
    for durable, types in rights.consumes.items():
        yield from _consumer(durable, types, run_id)
    if rights.looks:
        yield from (f"$JS.API.CONSUMER.LIST.{stream.name}" for stream in STREAMS)
    if rights.makes:
        yield from (f"$JS.API.STREAM.{what}.{stream.name}" for what in ("CREATE", "UPDATE") for stream in STREAMS)
    if rights.keeps:
        yield from _keeper()


def _consumer(durable: str, types: Types, run_id: str) -> Iterator[str]:
    name = "*" if run_id == "*" else durable_name(durable, run_id)
    for stream in filters_of(types, run_id):
        at = f"{stream.name}.{name}"
        yield from (f"$JS.API.CONSUMER.{what}.{at}" for what in ("CREATE", "INFO", "MSG.NEXT"))
        yield f"$JS.API.CONSUMER.CREATE.{at}.>"  # where a client names the one subject that it wants
        yield f"$JS.ACK.{at}.>"
    yield from (dead_subject(pattern_of(kind, run_id)) for kind in types)


def _keeper() -> Iterator[str]:
    for stream in STREAMS:
        if stream.trimmed:
            yield f"$JS.API.STREAM.PURGE.{stream.name}"
    yield "$JS.API.STREAM.NAMES"
    yield f"{DEAD}.>"


_ANSWER = {"max": 1, "expires": "1m"}


def server_users(public: Mapping[str, str], run_id: str = "*") -> str:
    """The part of a NATS server's configuration that says who may do what; it holds no secret.

    Args:
        public: public key by user.
        run_id: as `permissions_of` takes it.
    """
    users = []
    for user in USERS:
        may = permissions_of(user, run_id)
        permissions: dict[str, object] = {"publish": {"allow": may.publish}, "subscribe": {"allow": may.subscribe}}
        if not may.publish:
            permissions["publish"] = {"deny": [">"]}
        if may.answers:
            permissions["allow_responses"] = _ANSWER
        users.append({"nkey": public[user], "permissions": permissions})
    body = msgspec.json.format(msgspec.json.encode({"users": users}), indent=1).decode()
    return f"authorization {body}\n"
