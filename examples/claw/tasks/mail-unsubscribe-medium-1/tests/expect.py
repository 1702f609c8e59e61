"""What a verifier expects of the office and of the working folder. Every expectation prints whether it holds, and why not.

    expect = Expect.load()
    expect.mail_sent(to="ada@lumo.test", contains=["412.50"])
    expect.nothing_else_changed()
    expect.finish()

Goals give credit, each the same; guards give none, but where one is broken the reward is 0. Doing nothing reaches no goal.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import alone
from compare import Tampered, changes, difference, digest_of, has, replayed, tidy
from engine import State

PROGRAM_S = 10.0


class Expect:
    """The expectations of one task.

    Args:
        seed: the office as it was.
        state: the office as it is.
        app: the working folder.
        logs: where the reward goes.
        broken: why nothing can be worth anything, if so.
    """

    def __init__(self, seed: State, state: State, app: Path, logs: Path, broken: str = "") -> None:
        self.seed, self.state, self.app, self.logs = seed, state, app, logs
        self._claimed: set[str] = set()
        self._goals: list[float] = []
        self._broken = [broken] if broken else []

    @classmethod
    def load(cls) -> Expect:
        """Reads what service and agent left. The state has to be what the journal's requests make of the seed: whoever edits it
        would have to write requests that the service would have carried out."""
        logs = Path(os.environ.get("LOGS_DIR", "/logs"))
        seed = json.loads(Path(__file__).with_name("before.json").read_text(encoding="utf-8"))
        kept, broken = logs / "artifacts" / "office", ""
        try:
            state = replayed(seed, kept)
        except (Tampered, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
            state, broken = seed, f"the office's journal and state do not agree: {e}"
        return cls(seed, state, Path(os.environ.get("APP_DIR", os.getcwd())), logs, broken)

    # Goals

    def mail_sent(
        self, *, to: str, contains: Sequence[str] = (), lacks: Sequence[str] = (), subject: str = "", answers: str = ""
    ) -> None:
        """One new mail to that address alone, whose text has all of `contains` (as words of their own) and none of `lacks`.

        Args:
            to: its only addressee.
            contains: what is in its text.
            lacks: what is not.
            subject: what it has for a subject.
            answers: id of the mail that it replies to or forwards.
        """

        def fits(mail: State) -> bool:
            right = mail["to"] == [to] and not mail["cc"] and subject in ("", mail["subject"])
            told = all(has(mail["text"], text) for text in contains) and not any(has(mail["text"], text) for text in lacks)
            return right and told and answers in ("", mail.get("answers", ""))

        wanted = (
            f"a mail to {to}"
            + "".join(f", {text!r} in it" for text in contains)
            + (f", an answer to {answers}" if answers else "")
        )
        self._one_new("mail", fits, wanted)

    def mails_moved(self, names: Iterable[str], folder: str) -> None:
        """These mails are in that folder; some of them are some of the credit."""
        self._share([(f"mail/{n}", self._differs("mail", n, {"folder": folder})) for n in names], f"mails in {folder}")

    def mails_deleted(self, names: Iterable[str]) -> None:
        """These mails are gone; some of them are some of the credit."""
        self._share([(f"mail/{n}", n not in self.state["mail"]) for n in names], "mails deleted")

    def event_at(self, name: str, start: str, end: str) -> None:
        """That event has these times now, and is else as it was."""
        self._share([(f"events/{name}", self._differs("events", name, {"start": start, "end": end}))], f"{name} at {start}")

    def event_deleted(self, name: str) -> None:
        """That event is gone."""
        self._share([(f"events/{name}", name not in self.state["events"])], f"the event {name} deleted")

    def event_created(self, *, title: str, start: str, end: str, attendees: Iterable[str], place: str = "") -> None:
        """One new event with that title, at these times, with just these attendees."""
        wanted = set(attendees)

        def fits(event: State) -> bool:
            when = (event["start"], event["end"]) == (start, end) and place in ("", event["place"])
            return when and event["title"].strip().lower() == title.lower() and set(event["attendees"]) == wanted

        self._one_new("events", fits, f"an event {title!r} at {start}")

    def contact_is(self, name: str, **fields: str) -> None:
        """That contact has these fields now, and is else as it was."""
        self._share([(f"contacts/{name}", self._differs("contacts", name, fields))], f"contact {name} {fields}")

    def posted(self, channel: str, contains: Sequence[str], lacks: Sequence[str] = ()) -> None:
        """One new message in that channel, with all of `contains` and none of `lacks`."""
        before, now = self.seed["chat"][channel], self.state["chat"][channel]
        fitting = [
            f"chat/{channel}/{n}" for n in range(len(before), len(now))
            if all(has(now[n]["text"], text) for text in contains) and not any(has(now[n]["text"], text) for text in lacks)
        ]  # fmt: skip
        self._claimed |= set(fitting[:1])
        self._goal(float(len(fitting) == 1), f"a message in {channel} with {list(contains)}", f"{len(fitting)} such messages")

    def office_file(self, path: str, text: str) -> None:
        """That file of the office has this text, but for white space at the ends of lines."""
        found = self.state["files"].get(path)
        right = found is not None and tidy(found) == tidy(text) and found != self.seed["files"].get(path)
        self._share([(f"files/{path}", right)], f"office file {path}")

    def file_is(self, path: str, text: str) -> None:
        """That file of the working folder has this text, but for white space at the ends of lines."""
        found = self._read(path)
        self._goal(float(found is not None and tidy(found) == tidy(text)), f"{path} as wanted", difference(found, text))

    def files_renamed(self, names: dict[str, str], texts: Sequence[str]) -> None:
        """These files have their new names, and the texts that they had; some of them are some of the credit."""
        right = [
            new for (old, new), text in zip(names.items(), texts, strict=True)
            if self._read(new) == text and (old == new or self._read(old) is None)
        ]  # fmt: skip
        lost = [old for old, new in names.items() if self._read(old) is None and new not in right]
        self._goal(len(right) / len(names), "files renamed", f"{len(right)} of {len(names)}")
        self._guard(not lost, "no file is lost", f"lost: {', '.join(lost[:5])}")

    def json_is(self, path: str, value: Any) -> None:
        """That file of the working folder holds this JSON; of an object, each right entry is some of the credit."""
        try:
            found = json.loads(self._read(path) or "")
        except ValueError as e:
            self._goal(0.0, f"{path} as wanted", f"it is no JSON: {e}")
            return
        share = float(found == value)
        if isinstance(value, dict) and isinstance(found, dict) and set(found) <= set(value):
            share = sum(name in found and found[name] == value[name] for name in value) / len(value)
        self._goal(share, f"{path} as wanted", "its entries differ from what is right")

    def rows_are(self, path: str, rows: Sequence[Sequence[str]]) -> None:
        """That CSV file of the working folder has just these rows, in this order, the header first."""
        found = list(csv.reader(io.StringIO(self._read(path) or "")))
        wanted = [list(row) for row in rows]
        self._goal(float([row for row in found if row] == wanted), f"{path} as wanted", f"{len(found)} rows: {found[:3]}...")

    def program_gives(self, argv: Sequence[str], cases: Sequence[tuple[str, str]]) -> None:
        """A Python program of the working folder prints what it must for each input. All or nothing: a broken program is right
        for some inputs."""
        alone.hide()
        wrong = next((n for n, (given, wanted) in enumerate(cases, 1) if tidy(self._run(argv, given)) != tidy(wanted)), 0)
        self._goal(float(not wrong), f"{' '.join(argv)} is right", f"wrong for input {wrong} of {len(cases)}")

    # Guards

    def nothing_else_changed(self) -> None:
        """Of the office only what a goal above spoke of, and found right, differs from before."""
        changed = sorted(set(changes(self.seed, self.state)) - self._claimed)
        self._guard(not changed, "nothing else changed in the office", f"changed: {', '.join(changed[:5])}")

    def files_untouched(self, digests: dict[str, str]) -> None:
        """These files of the working folder, by the SHA-256 of each, are as they were."""
        changed = [path for path, digest in digests.items() if digest_of(self.app / path) != digest]
        self._guard(not changed, "the given files are as they were", f"changed or gone: {', '.join(changed[:5])}")

    def folder_has(self, folder: str, names: Iterable[str]) -> None:
        """A folder of the working folder has no other files than these."""
        there = {p.relative_to(self.app / folder).as_posix() for p in (self.app / folder).rglob("*") if not p.is_dir()}
        extra = sorted(there - set(names))
        self._guard(not extra, f"no other files in {folder}", f"there are: {', '.join(extra[:5])}")

    def finish(self) -> None:
        """Writes the reward: the mean of the goals, 0 if a guard is broken."""
        for why in self._broken:
            say(f"0 for all: {why}")
        reward = 0.0 if self._broken or not self._goals else round(sum(self._goals) / len(self._goals), 4)
        folder = self.logs / "verifier"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reward.txt").write_text(f"{reward:g}\n", encoding="utf-8")
        say(f"reward {reward:g}")

    # How

    def _one_new(self, kind: str, fits: Any, wanted: str) -> None:
        new = [item for name, item in self.state[kind].items() if name not in self.seed[kind]]
        fitting = [f"{kind}/{item['id']}" for item in new if f"{kind}/{item['id']}" not in self._claimed and fits(item)]
        self._claimed |= set(fitting[:1])
        self._goal(float(bool(fitting)), wanted, f"{len(new)} new, none like that")

    def _differs(self, kind: str, name: str, fields: State) -> bool:
        """Whether an item is as it was but for these fields, and was not so before."""
        before, now = self.seed[kind][name], self.state[kind].get(name)
        return bool(now == before | fields and now != before)

    def _share(self, parts: Sequence[tuple[str, bool]], what: str) -> None:
        self._claimed |= {key for key, right in parts if right}
        wrong = [key for key, right in parts if not right]
        self._goal(1 - len(wrong) / len(parts), what, f"not so: {', '.join(wrong[:5])}")

    def _goal(self, share: float, what: str, why: str) -> None:
        self._goals.append(share)
        say(f"{'ok' if share == 1 else f'{share:.2f} of'}: {what}" + ("" if share == 1 else f" ({why})"))

    def _guard(self, held: bool, what: str, why: str) -> None:
        say(f"{'ok' if held else 'BROKEN'}: {what}" + ("" if held else f" ({why})"))
        self._broken += [] if held else [f"{what}: {why}"]

    def _read(self, path: str) -> str | None:
        file = self.app / path
        try:
            return file.read_text(encoding="utf-8") if file.is_file() and file.stat().st_size < 1_000_000 else None
        except (OSError, UnicodeDecodeError):
            return None

    def _run(self, argv: Sequence[str], given: str) -> str:
        """What a program prints; into a file, since what it leaves behind could hold a pipe open."""
        with tempfile.TemporaryFile("w+") as stdin, tempfile.TemporaryFile("w+") as stdout:
            stdin.write(given)
            stdin.seek(0)
            program = subprocess.Popen(
                [sys.executable, "-I", *argv], stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, cwd=self.app
            )
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(PROGRAM_S)
            alone.end_all()
            stdout.seek(0)
            return stdout.read(1_000_000) if program.wait() == 0 else f"exit status {program.returncode}"


def say(text: str) -> None:
    """For the verifier's log."""
    print(text, flush=True)  # noqa: T201 - the log is for people
