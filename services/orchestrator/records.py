"""What the orchestrator knows of rollouts, in the run folder, so that a restarted one goes on where the last one stopped.

rollouts/<session id>/start.json     the command and the number of the attempt: it was accepted
                      asked.json     limits of its sandbox: the backend took it
                      spec.json      what the runner was told, where it is a process of this machine; it goes with the sandbox
                      status.json    what the runner tells
                      outcome.json   the attempt's last message, written once it was published
                      agent.log verify.log runner.log
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from services.orchestrator.state import Outcome, Rollout
from shared.config import Config
from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart, RolloutTimedOut, decode, encode
from shared.ids import session_id

log = logging.getLogger(__name__)

START, ASKED, SPEC, STATUS, OUTCOME = "start.json", "asked.json", "spec.json", "status.json", "outcome.json"
LOG = "runner.log"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox was asked for with.

    Attributes:
        family: of its task (see `shared.task.family`).
        limit_s: wall-clock limit of its agent in seconds.
        deadline_s: seconds after which all in it has ended.
        apart: the verifier gets a sandbox of its own afterwards.
        keeps: what is handed to it stays in the run folder.
        model: its agent calls a model; the task's own solution does not.
    """

    family: str
    limit_s: float
    deadline_s: float
    apart: bool = False
    keeps: bool = False
    model: bool = True


class _Accepted(msgspec.Struct):
    attempt: int
    task: str
    start: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Found:
    """A rollout that an earlier orchestrator had accepted.

    Attributes:
        rollout: where it stands.
        asked: what the sandbox of its current attempt was asked for with; None before.
        noted: number of the attempt in whose folder this stands: the current one, or the one before, which failed.
    """

    rollout: Rollout
    asked: Asked | None
    noted: int


class Records:
    """The folder `rollouts` of a run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, rollout: Rollout) -> Path:
        """Folder of the current attempt."""
        return self.root / session_id(rollout.start.rollout_id, rollout.attempt)

    def accept(self, rollout: Rollout) -> None:
        """Makes the current attempt known; doing it again changes nothing."""
        folder = self.folder(rollout)
        folder.mkdir(parents=True, exist_ok=True)
        accepted = _Accepted(rollout.attempt, rollout.task, msgspec.Raw(encode(rollout.start)))
        replace_file(folder / START, msgspec.json.encode(accepted))

    def ask(self, rollout: Rollout, asked: Asked) -> None:
        """Notes that the current attempt's sandbox was asked for, and taken by the backend."""
        replace_file(self.folder(rollout) / ASKED, msgspec.json.encode(asked))

    def report(self, rollout: Rollout, outcome: Outcome) -> None:
        """Notes that the outcome of the current attempt was published."""
        replace_file(self.folder(rollout) / OUTCOME, encode(outcome))

    def outcome(self, session: str) -> Outcome | None:
        """The outcome of an attempt, once it was published; None before, and for sessions of nobody."""
        try:
            message = decode((self.root / session / OUTCOME).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None
        return message if isinstance(message, RolloutFinished | RolloutTimedOut | RolloutFailed) else None

    def ended(self) -> list[tuple[Asked, Outcome]]:
        """All attempts that had a sandbox and whose outcome was published, the earliest first."""
        found = []
        for file in self.root.glob(f"*/{ASKED}"):
            outcome = self.outcome(file.parent.name)
            with suppress(OSError, msgspec.DecodeError):  # `load` tells of what cannot be read
                if outcome and (asked := _asked(file.parent)):
                    found.append((asked, outcome))
        return sorted(found, key=lambda pair: pair[1].at)

    def known(self, rollout_id: str) -> bool:
        """Whether a rollout was accepted before.

        Raises:
            InvalidId: its id is too long for a session's.
        """
        return (self.root / session_id(rollout_id, 1) / START).exists()

    def find(self, rollout_id: str, attempts: int) -> Found | None:
        """A rollout at its latest attempt; None if it was never accepted, or cannot be read."""
        latest = None
        for number in range(1, attempts + 1):
            folder = self.root / session_id(rollout_id, number)
            if not (folder / START).exists():
                break
            latest = folder
        try:
            return _read(latest, attempts) if latest else None
        except (OSError, msgspec.DecodeError) as e:
            log.error("the records in %s cannot be read: %s", latest, e)
            return None

    def load(self, attempts: int) -> list[Found]:
        """All rollouts, each at its latest attempt, those with a sandbox first. What cannot be read is logged and left out."""
        latest: dict[str, Found] = {}
        for file in self.root.glob(f"*/{START}"):
            try:
                found = _read(file.parent, attempts)
            except (OSError, msgspec.DecodeError) as e:
                log.error("%s cannot be read, its rollout is left out: %s", file, e)
                continue
            known = latest.get(found.rollout.start.rollout_id)
            if known is None or known.noted < found.noted:
                latest[found.rollout.start.rollout_id] = found
        return sorted(latest.values(), key=lambda found: (found.asked is None, found.rollout.start.at))


def rollouts_folder(config: Config) -> Path:
    """Where the records of a run lie."""
    return Path(config.run.root).resolve() / config.run.id / "rollouts"


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file that only its owner may read, as a whole or not at all."""
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    new.replace(path)


def _read(folder: Path, attempts: int) -> Found:
    accepted = msgspec.json.decode((folder / START).read_bytes(), type=_Accepted)
    rollout = Rollout(_message(bytes(accepted.start), RolloutStart), accepted.task, attempts, accepted.attempt)
    if not (folder / OUTCOME).exists():
        return Found(rollout, _asked(folder), accepted.attempt)
    match decode((folder / OUTCOME).read_bytes()):
        case RolloutFailed(final=False):
            return Found(replace(rollout, attempt=rollout.attempt + 1), None, accepted.attempt)
        case RolloutFinished() | RolloutTimedOut():
            return Found(replace(rollout, phase="reported"), None, accepted.attempt)
    return Found(replace(rollout, phase="closed"), None, accepted.attempt)


def _asked(folder: Path) -> Asked | None:
    try:
        return msgspec.json.decode((folder / ASKED).read_bytes(), type=Asked)
    except FileNotFoundError:
        return None


def _message(data: bytes, kind: type[RolloutStart]) -> RolloutStart:
    message: Message = decode(data)
    if not isinstance(message, kind):
        raise msgspec.ValidationError(f"expected {kind.__name__}, got {type(message).__name__}")
    return message
