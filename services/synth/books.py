"""What synth knows, in the run folder: enough to go on after being killed at any moment.

synth/tasks/<task id>/candidate.json       where it stands
                      rounds/<n>/task/      its folder in that round of refinement
                                 made.json  answers and rollouts that it was made with
                                 verdicts/  of the gates: <gate>.json
                                 evidence/  files that gates keep
synth/trials/<rollout id>.json             a trial that was asked for, and how it ended
synth/accepted/<name>/                     accepted tasks, unless `synth.to` says where
               .known/<name>.json          what is known of each

A file is written as a whole and then renamed, and so is a folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from services.synth.candidate import Candidate
from services.synth.model import Lineage, Proposal, Verdict
from services.synth.sources import Sources
from shared.config import Config

T = TypeVar("T")
CANDIDATE, MADE, TASK, PART = "candidate.json", "made.json", "task", ".part"
KNOWN = ".known"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict as it is kept.

    Attributes:
        digest: of the task's content that it is of.
        pool: how many tasks had been accepted, for gates that compare with them.
        verdict: what the gate said.
        calls: keys of the judge's answers that it is of.
    """

    digest: str
    pool: int
    verdict: Verdict
    calls: list[str] = []


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an accepted task, beside it.

    Attributes:
        proposal: what it was made of, with its lineage.
        digest: of its content.
        image: digest of the image that it was tried in, as the backend names it; empty for local sandboxes.
        run: that made it.
        rounds: of refinement that it took.
        at: unix time in seconds of its acceptance.
        split: `train`, or `hard` where the tester never succeeded.
        verdicts: of all gates, with their evidence.
    """

    proposal: Proposal
    digest: str
    run: str
    rounds: int
    at: float
    split: str
    verdicts: list[Verdict]
    image: str = ""


class Books:
    """The folder of a run's synth.

    Attributes:
        root: the folder.
        trials: of trials.
        accepted: of accepted tasks.
    """

    def __init__(self, config: Config) -> None:
        self.root = Path(config.run.root).resolve() / config.run.id / "synth"
        self.trials = self.root / "trials"
        self.accepted = Path(config.synth.to).resolve() if config.synth.to else self.root / "accepted"
        self.known = self.accepted / KNOWN

    def load(self, task_id: str) -> Candidate | None:
        """A candidate; None if there is none."""
        return _read(self._task(task_id) / CANDIDATE, Candidate)

    def save(self, task: Candidate) -> None:
        """Notes where a candidate stands."""
        write(self._task(task.task_id) / CANDIDATE, task)

    def all(self) -> Iterator[Candidate]:
        """All candidates, by number."""
        for file in sorted(self.root.glob(f"tasks/*/{CANDIDATE}")):
            if task := _read(file, Candidate):
                yield task

    def round(self, task: Candidate, number: int | None = None) -> Path:
        """Folder of a candidate's round; the present one by default."""
        return self._task(task.task_id) / "rounds" / str(task.round if number is None else number)

    def evidence(self, task: Candidate) -> Path:
        """Folder for what gates keep of the present round."""
        folder = self.round(task) / "evidence"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def verdict(self, task: Candidate, gate: str) -> Kept | None:
        """What a gate said of the candidate's present content; None if it was not asked."""
        kept = _read(self._verdict(task, gate), Kept)
        return kept if kept and kept.digest == task.digest else None

    def keep(self, task: Candidate, verdict: Verdict, pool: int, calls: list[str]) -> None:
        """Keeps a verdict on the candidate's present content."""
        write(self._verdict(task, verdict.gate), Kept(digest=task.digest, pool=pool, verdict=verdict, calls=calls))

    def verdicts(self, task: Candidate, number: int) -> list[Verdict]:
        """What was said in a round, by the time at which it was."""
        return [kept.verdict for kept in self._kept(task, number)]

    def made(self, task: Candidate, number: int, sources: Sources) -> None:
        """Notes what the folder of a round is made with, before it is there."""
        write(self.round(task, number) / MADE, sources)

    def lineage(self, task: Candidate) -> Lineage:
        """Where a candidate comes from, with all answers and rollouts that it was made and judged with."""
        assert task.proposal is not None, "what has no proposal comes from nowhere"
        lineage = task.proposal.lineage
        calls, sessions = [*lineage.calls], [*lineage.sessions]
        for number in range(task.round + 1):
            made = _read(self.round(task, number) / MADE, Sources) or Sources()
            calls += [*made.calls, *(call for kept in self._kept(task, number) for call in kept.calls)]
            sessions += made.sessions
        return msgspec.structs.replace(lineage, calls=list(dict.fromkeys(calls)), sessions=list(dict.fromkeys(sessions)))

    def accept(self, task: Candidate, known: Known) -> None:
        """Puts a candidate among the accepted tasks; doing it again changes nothing. What is known of it comes first: that
        tells one that was just being accepted from one of that name that was there."""
        write(self.known / f"{task.name}.json", known)
        target = self.accepted / task.name
        if not target.exists():
            part = fresh(self.accepted / f".{task.name}{PART}")
            shutil.copytree(self.round(task) / TASK, part, symlinks=True, dirs_exist_ok=True)
            part.rename(target)

    def known_of(self, name: str) -> Known | None:
        """What is known of an accepted task."""
        return _read(self.known / f"{name}.json", Known)

    def _kept(self, task: Candidate, number: int) -> list[Kept]:
        files = sorted((self.round(task, number) / "verdicts").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [kept for file in files if (kept := _read(file, Kept))]

    def _task(self, task_id: str) -> Path:
        return self.root / "tasks" / task_id

    def _verdict(self, task: Candidate, gate: str) -> Path:
        return self.round(task) / "verdicts" / f"{gate}.json"


def known_beside(folder: Path) -> Known | None:
    """What is known of the task in a folder, if it is one that was accepted.

    Raises:
        msgspec.DecodeError: that cannot be read.
    """
    return _read(known_file(folder), Known)


def known_file(folder: Path) -> Path:
    """Where it lies."""
    return folder.resolve().parent / KNOWN / f"{folder.resolve().name}.json"


def write(file: Path, content: msgspec.Struct) -> None:
    """Writes a file as a whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}{PART}")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(content)))
    part.replace(file)


def fresh(folder: Path) -> Path:
    """Makes an empty folder, whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _read(file: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
