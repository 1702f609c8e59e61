"""Reads what a run of synth left in its folder, while it runs or later."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from services.dev.settings_file import SETTINGS
from services.dev.stack import is_running
from services.dev.synth.overview import Overview, overview
from services.synth.books import Books
from services.synth.candidate import Candidate
from services.synth.makers import answers_of
from services.synth.models.answers import Answers
from services.synth.trials import Asked
from shared.config import Config, load_config, resolve
from shared.errors import ConfigError
from shared.ids import check_id


def find_run(root: Path, run_id: str) -> Config:
    """The configuration of a run that made tasks: the one named, else the newest.

    Raises:
        ConfigError: there is none.
    """
    found = sorted(root.glob(f"{check_id(run_id, 'run id') if run_id else '*'}/synth/tasks"))
    if not found:
        which = f"run {run_id}" if run_id else "run"
        raise ConfigError(f"no {which} under {root} has made tasks; `openforge synth synth.toml` starts one")
    folder = found[-1].parents[1]
    file = folder / "config.json"
    return load_config(file) if file.exists() else resolve(folder / SETTINGS).config


def look(config: Config) -> Overview:
    """What has become of a run's candidates by now."""
    books = Books(config)
    tasks = list(books.all())
    verdicts = [v for task in tasks for number in range(task.round + 1) for v in books.verdicts(task, number)]
    return overview(config.run.id, tasks, verdicts, trials_of(books), paid_of(config), time.time())


def is_left(config: Config, found: Overview) -> bool:
    """Whether a run has tasks that are not through, and nobody who works on them."""
    return bool(found.under_way or found.held) and not is_running(Path(config.run.root) / config.run.id)


def trials_of(books: Books) -> list[Asked]:
    """All trials that were asked for, by name."""
    files = sorted(books.trials.glob("[!.]*.json"))
    return [msgspec.json.decode(file.read_bytes(), type=Asked) for file in files]


def paid_of(config: Config) -> list[float]:
    """What each answer of a model that this run paid for cost, in US dollars."""
    return [paid.usd for paid in Answers(answers_of(config)).paid(config.run.id)]


def find_task(books: Books, name: str) -> Candidate:
    """A candidate by the id of its messages, its number, or the name of its folder.

    Raises:
        ConfigError: there is none.
    """
    tasks = list(books.all())
    for task in tasks:
        if name in (task.task_id, str(task.number), task.name):
            return task
    there = f"{tasks[0].task_id} to {tasks[-1].task_id}" if tasks else "none so far"
    raise ConfigError(
        f"there is no task {name!r} in this run: name it by its id ({there}), its number, or its folder's name, as in "
        f"{books.accepted}"
    )


def task_json(books: Books, task: Candidate) -> str:
    """A candidate and what was said of it in each round, as JSON."""
    rounds = [books.verdicts(task, number) for number in range(task.round + 1)]
    return msgspec.json.encode({"candidate": task, "rounds": rounds, "folder": str(books.round(task))}).decode()
