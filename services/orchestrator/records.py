"""What the orchestrator knows of rollouts, in the run folder, so that a restarted one goes on where the last one stopped.

rollouts/<session id>/start.json     the command and the number of the attempt: it was accepted
                      spec.json      what the runner was told
                      status.json    what the runner tells
                      outcome.json   the attempt's last message, written once it was published
                      agent.log verify.log runner.log
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from services.orchestrator.state import Outcome, Rollout
from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart, RolloutTimedOut, decode, encode
from shared.ids import session_id

log = logging.getLogger(__name__)

START, SPEC, STATUS, OUTCOME = "start.json", "spec.json", "status.json", "outcome.json"


class _Accepted(msgspec.Struct):
    attempt: int
    task: str
    start: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Found:
    """A rollout that an earlier orchestrator had accepted.

    Attributes:
        rollout: where it stands.
        running: a runner was started for its current attempt.
        noted: number of the attempt in whose folder this stands: the current one, or the one before, which failed.
    """

    rollout: Rollout
    running: bool
    noted: int


class Records:
    """The folder `rollouts` of a run."""

    def __init__(self, run_folder: Path) -> None:
        self.root = run_folder / "rollouts"

    def folder(self, rollout: Rollout) -> Path:
        """Folder of the current attempt."""
        return self.root / session_id(rollout.start.rollout_id, rollout.attempt)

    def accept(self, rollout: Rollout) -> None:
        """Makes the current attempt known; doing it again changes nothing."""
        folder = self.folder(rollout)
        folder.mkdir(parents=True, exist_ok=True)
        accepted = _Accepted(rollout.attempt, rollout.task, msgspec.Raw(encode(rollout.start)))
        replace_file(folder / START, msgspec.json.encode(accepted))

    def report(self, rollout: Rollout, outcome: Outcome) -> None:
        """Notes that the outcome of the current attempt was published."""
        replace_file(self.folder(rollout) / OUTCOME, encode(outcome))

    def load(self, attempts: int) -> list[Found]:
        """All rollouts, each at its latest attempt, those with a runner first. What cannot be read is logged and left out."""
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
        return sorted(latest.values(), key=lambda found: (not found.running, found.rollout.start.at))


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
        return Found(rollout, (folder / SPEC).exists(), accepted.attempt)
    match decode((folder / OUTCOME).read_bytes()):
        case RolloutFailed(final=False):
            return Found(replace(rollout, attempt=rollout.attempt + 1), False, accepted.attempt)
        case RolloutFinished() | RolloutTimedOut():
            return Found(replace(rollout, phase="reported"), False, accepted.attempt)
    return Found(replace(rollout, phase="closed"), False, accepted.attempt)


def _message(data: bytes, kind: type[RolloutStart]) -> RolloutStart:
    message: Message = decode(data)
    if not isinstance(message, kind):
        raise msgspec.ValidationError(f"expected {kind.__name__}, got {type(message).__name__}")
    return message
