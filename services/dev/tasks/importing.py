"""`openforge tasks import`: a set in another format becomes a folder of task folders."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track

from services.dev.tasks.draft import Format
from services.dev.tasks.formats import format_of
from services.dev.tasks.origin import Origin, origin_of
from services.dev.tasks.seeding import seed
from services.dev.tasks.writer import write_task
from shared.errors import TaskError
from shared.task import load_task

_SHOWN = 20


@dataclass(slots=True)
class Imported:
    """What became of a set.

    Attributes:
        form: name of its format.
        origin: where it comes from.
        tasks: folders that were written.
        refused: place in the source and reason of what could not be used.
        needs: how many tasks need something that is not here, by what it is.
    """

    form: str
    origin: Origin
    tasks: list[Path] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)


def import_tasks(source: Path, to: Path, form: str = "", said: str = "", licence: str = "") -> int:
    """Imports a set and prints what became of it; returns 0 if all of it could be used, else 1.

    Raises:
        TaskError: the source, its format, or every task of it is unusable.
    """
    name, reader = format_of(source, form)
    console = Console(stderr=True)
    done = read_set(source, to, name, reader, origin_of(source, said, licence), console)
    if not done.tasks and not done.refused:
        raise TaskError(f"{source}: no task of the format {name} in it")
    _report(done, to)
    return 1 if done.refused else 0


def read_set(source: Path, to: Path, name: str, reader: Format, origin: Origin, console: Console) -> Imported:
    """Imports a set; what cannot be used of it is noted, and the rest imported."""
    done = Imported(name, origin)
    for item in track(list(reader.items(source)), "importing", console=console, transient=True):
        try:
            draft = item.make()
            note = origin.note(name, item.place, draft.changes)
            folder = write_task(draft, to, note, origin.text, seed)
        except (TaskError, OSError) as e:
            done.refused.append((item.place, str(e)))
            continue
        done.tasks.append(folder)
        for need in needs_of(folder):
            done.needs[need] = done.needs.get(need, 0) + 1
    return done


def needs_of(folder: Path) -> list[str]:
    """What a task says in `metadata.needs` that it needs besides a sandbox."""
    needs = load_task(folder).metadata.get("needs", [])
    return [str(need) for need in needs] if isinstance(needs, list) else [str(needs)]


def _report(done: Imported, to: Path) -> None:
    lines = [f"{len(done.tasks)} tasks imported from {done.form} into {to}", f"source: {done.origin.source}"]
    lines.append(f"licence: {done.origin.licence}")
    needs = sorted(done.needs.items(), key=lambda entry: -entry[1])
    lines += [f"{count} of them need {need}" for need, count in needs[:_SHOWN]]
    if needs:
        lines.append("what needs something that is not here leaves no reward, and says so in metadata.needs")
    if done.tasks and len(done.needs) == 0:
        lines.append(f"next: openforge tasks check {to}")
    sys.stdout.write("\n".join(lines) + "\n")
    for place, why in done.refused[:_SHOWN]:
        sys.stderr.write(f"not imported: {place}: {why}\n")
    if len(done.refused) > _SHOWN:
        sys.stderr.write(f"... and {len(done.refused) - _SHOWN} more; {len(done.refused)} in all\n")
