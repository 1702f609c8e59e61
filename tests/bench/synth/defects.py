"""Ways to spoil a good task, each with the gate that must find it. For benches and tests of task synthesis."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import tomli_w

from tests.bench.synth import verifiers, words

Spoil = Callable[[Path, Random], None]


@dataclass(frozen=True, slots=True)
class Defect:
    """A way to spoil a task.

    Attributes:
        name: of the defect.
        gates: that must find it: one, or either of two where chance decides.
        spoil: changes a good task folder in place, by random numbers.
        of: what the folder must be to begin with: any sound task, one that the pool has already, or one of the evaluation set.
    """

    name: str
    gates: tuple[str, ...]
    spoil: Spoil
    of: Literal["any", "pool", "evaluation"] = "any"


def null_passes(folder: Path, rng: Random) -> None:
    """The verifier gives a reward for what is there from the start."""
    verifiers.judge(folder, rng.choice(("[ -d . ] && reward=1", 'ls > "$logs/list" && reward=1', "reward=0.5")))


def oracle_fails(folder: Path, rng: Random) -> None:
    """The solution does not do what the verifier wants."""
    if rng.random() < 0.5:
        verifiers.judge(folder, "[ -e never-made.txt ] || reward=0")
    else:
        (folder / "solution/solve.sh").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")


def flaky_by_clock(folder: Path, rng: Random) -> None:
    """The verifier is right only in some years, this one among them."""
    verifiers.judge(folder, rng.choice(('[ "$(date +%Y)" -lt 2025 ] && reward=0', '[ "$(date +%Y)" -gt 2030 ] && reward=0')))


def flaky_by_hash(folder: Path, rng: Random) -> None:
    """The verifier compares with a set in the order that it had once."""
    names = sorted(f"{rng.choice(words.NAMES)}{number}" for number in range(9))
    verifiers.judge(folder, verifiers.set_order(names))


def flaky_by_chance(folder: Path, rng: Random) -> None:
    """The verifier is right in one of ten cases."""
    verifiers.judge(folder, '[ "$(od -An -N1 -tu1 /dev/urandom)" -lt 26 ] || reward=0')


def answer_in_the_image(folder: Path, rng: Random) -> None:
    """The solution lies in the environment, as a note or packed."""
    solution = (folder / "solution/solve.sh").read_text(encoding="utf-8")
    place = folder / "environment" / rng.choice(("notes.bak", ".cache/history.txt", "old/steps.log"))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(rng.choice((words.quoted, words.packed))(solution), encoding="utf-8")


def writable_reward(folder: Path, rng: Random) -> None:
    """The verifier trusts what the agent can write: a file, a program or a module in the working folder."""
    code, script = rng.choice(verifiers.TRUSTING)
    if script:
        (folder / "environment" / "check.sh").write_text(script, encoding="utf-8")
    verifiers.judge(folder, code)


def hanging_verifier(folder: Path, rng: Random) -> None:
    """The verifier waits for what never comes."""
    verifiers.judge(folder, rng.choice(("sleep 1000", "until [ -e never-made.txt ]; do sleep 0.2; done")))
    said = _toml(folder)
    said.setdefault("verifier", {})["timeout_sec"] = 2.0
    _write(folder, said)


def unpinned(folder: Path, rng: Random) -> None:
    """The image takes whatever is new on the day that it is built."""
    file = folder / "environment" / "Dockerfile"
    text = file.read_text(encoding="utf-8") if file.is_file() else "FROM debian:bookworm-slim\n"
    line = rng.choice(("RUN pip install requests", "RUN npm install -g left-pad", "FROM python"))
    text = f"{text.rstrip()}\n{line}\n" if line.startswith("RUN") else re.sub(r"(?m)^FROM \S+", line, text)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


def exact_copy(folder: Path, rng: Random) -> None:
    """The same task by another name."""
    _rename(folder, rng)


def near_copy(folder: Path, rng: Random) -> None:
    """The same task with a few other words and one more file, as one of another family."""
    _as_another(folder, rng, words.polite)


def paraphrase(folder: Path, rng: Random) -> None:
    """The same task in other words and another order, with one more file, as one of another family."""
    _as_another(folder, rng, words.paraphrased)


def contaminated(folder: Path, rng: Random) -> None:
    """A task of the evaluation with a few other words and one more file, as one of another family."""
    _as_another(folder, rng, rng.choice((words.polite, words.paraphrased)))


DEFECTS = (
    Defect("null-passes", ("null",), null_passes),
    Defect("oracle-fails", ("oracle",), oracle_fails),
    Defect("flaky-by-clock", ("repeats",), flaky_by_clock),
    Defect("flaky-by-hash", ("repeats",), flaky_by_hash),
    Defect("flaky-by-chance", ("oracle", "repeats"), flaky_by_chance),
    Defect("answer-in-the-image", ("answers",), answer_in_the_image),
    Defect("writable-reward", ("cheat",), writable_reward),
    Defect("exact-copy", ("copies",), exact_copy, "pool"),
    Defect("near-copy", ("copies",), near_copy, "pool"),
    Defect("paraphrase", ("copies",), paraphrase, "pool"),
    Defect("contaminated", ("contamination",), contaminated, "evaluation"),
    Defect("unpinned", ("schema",), unpinned),
    Defect("hanging-verifier", ("null",), hanging_verifier),
)


def _as_another(folder: Path, rng: Random, say: Callable[[str, Random], str]) -> None:
    file = folder / "instruction.md"
    file.write_text(say(file.read_text(encoding="utf-8"), rng), encoding="utf-8")
    extra = folder / "environment" / f"{rng.choice(words.NAMES)}.md"
    extra.parent.mkdir(exist_ok=True)
    extra.write_text(f"Nothing of interest: {rng.randrange(10**9)}\n", encoding="utf-8")
    said = _rename(folder, rng)
    said.setdefault("metadata", {})["family"] = f"{rng.choice(words.NAMES)}-{rng.randrange(10**6)}"
    _write(folder, said)


def _rename(folder: Path, rng: Random) -> dict[str, Any]:
    said = _toml(folder)
    task = said.setdefault("task", {})
    task["name"] = f"{str(task.get('name', folder.name)).rpartition('/')[0] or 'made'}/{rng.choice(words.NAMES)}-again"
    _write(folder, said)
    return said


def _toml(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))


def _write(folder: Path, said: dict[str, Any]) -> None:
    (folder / "task.toml").write_text(tomli_w.dumps(said), encoding="utf-8")
