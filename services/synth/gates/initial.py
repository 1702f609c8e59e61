"""The initial state is as the task says that it is.

[metadata.initial]
there = ["inbox.json"]       # paths in the working folder, or absolute
absent = ["answer.txt"]

and tests/initial.sh, if there is one, must end with 0. Both are looked at after an agent that does nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.synth.gates.bare import NULL
from services.synth.gates.base import Looking, said, told, trouble
from services.synth.gates.derived import verified_by
from services.synth.model import Proposal, Verdict
from services.synth.ports import Room
from shared.task import load_task

_SCRIPT = """#!/bin/sh
wrong=0
{checks}if [ -f "$TESTS_DIR/own/initial.sh" ]; then
    sh "$TESTS_DIR/own/initial.sh" || {{ echo "tests/initial.sh ended with $?"; wrong=1; }}
fi
echo $((1 - wrong)) > "$LOGS_DIR/verifier/reward.txt"
"""


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[metadata.initial]: paths that are there, and that are not."""

    there: list[str] = []
    absent: list[str] = []


class Initial(Looking):
    """What task.toml says of the state that the agent finds is true."""

    name = "initial"

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        task = load_task(folder)
        says: Any = task.metadata.get("initial")
        if says is None and not (task.tests_dir / "initial.sh").is_file():
            return self.skipped("the task says nothing of its initial state: see [metadata.initial] in docs/synth-gates.md")
        try:
            wanted = msgspec.convert(says or {}, Said)
        except msgspec.ValidationError as e:
            return self.failed(
                "initial-unreadable", f"task.toml: metadata.initial: {e}: it may have there and absent, lists of paths"
            )
        if len(task.steps) > 1 or task.verifier.separate:
            return self.skipped("not looked at where a task has several steps, or a verifier in an environment of its own")
        with verified_by(folder, script(wanted.there, wanted.absent), room.evidence, "initial") as made:
            ended = await room.trials.run(proposal.task_id, made, [NULL])
        if wrong := trouble(ended[0]):
            return self.failed(*wrong, trials=told(ended))
        if ended[0].reward == 1:
            return self.passed(trials=told(ended))
        detail = f"the initial state is not what the task says: mend environment/, or metadata.initial{said(ended[0])}"
        return self.failed("other-initial-state", detail, trials=told(ended))


def script(there: Sequence[str], absent: Sequence[str]) -> str:
    """A verifier that gives 1 if all is as it should be, and else prints what is not."""
    checks = "".join(
        f"[ {'!' if missing else ''} -e {shlex.quote(path)} ] || {{ echo {shlex.quote(path)} {word}; wrong=1; }}\n"
        for paths, missing, word in ((there, False, "is not there"), (absent, True, "is there"))
        for path in paths
    )
    return _SCRIPT.format(checks=checks)
