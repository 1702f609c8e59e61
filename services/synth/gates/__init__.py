"""What a task must pass, cheapest first: one file a gate."""

from __future__ import annotations

from collections.abc import Sequence

from services.synth.gates.answers import Answers
from services.synth.gates.bare import Null, Oracle
from services.synth.gates.build import Build
from services.synth.gates.cheating import Cheating
from services.synth.gates.copies import Contamination, Copies
from services.synth.gates.difficulty import Difficulty
from services.synth.gates.initial import Initial
from services.synth.gates.outputs import Outputs
from services.synth.gates.repeats import Repeats
from services.synth.gates.rubric import Rubric
from services.synth.gates.schema import Schema
from services.synth.models.prompts import Prompts
from services.synth.ports import Gate
from shared.config import Config


def gates_of(config: Config) -> Sequence[Gate]:
    """The gates of a run, in the order in which they are asked; `[synth.gates]` and `[synth.tester]` say how strict.

    Raises:
        ConfigError: a prompt cannot be read.
    """
    settings, prompts = config.orchestrator, Prompts(config.synth.models.prompts)
    return (
        Schema(settings), Answers(), Copies(prompts), Contamination(), Build(settings), Initial(), Null(), Oracle(),
        Outputs(settings), Repeats(config.synth.gates.repeats), Cheating(), Rubric(prompts), Difficulty(config.synth.tester),
    )  # fmt: skip
