"""What the solution makes lies there already: a file of the environment that is, byte for byte, what the agent has to make."""

from __future__ import annotations

from pathlib import Path

from services.synth.gates.bare import NULL, ORACLE, solved
from services.synth.gates.base import Looking, told
from services.synth.gates.derived import verified_by
from services.synth.model import Ended, Proposal, Verdict
from services.synth.ports import Room
from shared.config import OrchestratorConfig
from shared.task import load_task

_SCRIPT = """#!/bin/sh
# Says for each file that is new or changed in the working folder which file it found there is the same.
find . -type f -size -1000k | while read -r made; do
    before="$TESTS_DIR/before/$made"
    if [ -f "$before" ] && cmp -s "$made" "$before"; then continue; fi
    [ "$(tr -d '[:space:]' < "$made" | wc -c)" -gt 1 ] || continue
    (cd "$TESTS_DIR/before" && find . -type f -size -1000k) | while read -r old; do
        [ -f "$old" ] && [ "${old##*/}" != "${made##*/}" ] || continue # it was moved, or keeps its name
        cmp -s "$TESTS_DIR/before/$old" "$made" && echo "SAME ${old#./} ${made#./}"
    done
done
echo 0 > "$LOGS_DIR/verifier/reward.txt"
"""
_SAME = "SAME "


class Outputs(Looking):
    """Compares what the solution has made with what was there. A file that the instruction names may be copied or moved.

    Args:
        settings: that say where sandboxes run: an image may put files elsewhere, which an agent that does nothing shows.
    """

    name = "outputs"

    def __init__(self, settings: OrchestratorConfig) -> None:
        self._moved = settings.backend != "local"

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        task = load_task(folder)
        if not task.environment_dir.is_dir():
            return self.passed("there is no environment")
        if not solved(folder):
            return self.skipped("there is no solution")
        if len(task.steps) > 1 or task.verifier.separate:
            return self.skipped("not looked at where a task has several steps, or a verifier in an environment of its own")
        with verified_by(folder, _SCRIPT, room.evidence, "outputs", {"before": task.environment_dir}) as made:
            ended = await room.trials.run(proposal.task_id, made, [ORACLE, NULL] if self._moved else [ORACLE])
        laid_out = [pair for one in ended[1:] for pair in same(one)]
        found = [
            (old, new) for old, new in same(ended[0]) if (old, new) not in laid_out and Path(old).name not in task.instruction
        ]
        if not found:
            return self.passed(trials=told(ended))
        old, new = found[0]
        detail = f"environment/{old} is what the solution makes as {new}: take it out, so that the agent has to do the work"
        return self.failed("answer-in-environment", detail, found=found, trials=told(ended))


def same(ended: Ended) -> list[tuple[str, str]]:
    """Pairs of a file that was there and one that was made: what the script above printed."""
    lines = [line.removeprefix(_SAME).split(" ") for line in ended.said.splitlines() if line.startswith(_SAME)]
    return [(words[0], words[1]) for words in lines if len(words) == 2]
