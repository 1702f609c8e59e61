"""What only a reader can judge: a model, by Harbor's eleven criteria."""

from __future__ import annotations

from pathlib import Path

import msgspec

from services.synth.gates.base import Looking
from services.synth.model import Proposal, Verdict
from services.synth.models.prompts import Prompts
from services.synth.ports import Room

CRITERIA = (
    "behavior_in_task_description", "behavior_in_tests", "informative_test_structure", "anti_cheating_measures",
    "structured_data_schema", "pinned_dependencies", "typos", "tests_or_solution_in_image", "test_deps_in_image",
    "hardcoded_solution", "file_reference_mentioned",
)  # fmt: skip
FATAL = (
    "hardcoded_solution", "behavior_in_tests", "behavior_in_task_description", "anti_cheating_measures",
    "tests_or_solution_in_image",
)  # fmt: skip
"""What a task is turned down for; the first of them is the verdict's reason. The others are kept with it."""
_FILE, _ALL = 8_000, 60_000
"""Characters of one file, and of all, that a prompt shows."""


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said by one criterion."""

    name: str
    why: str
    holds: bool


class Review(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said by all of them."""

    criteria: list[Criterion]


class Rubric(Looking):
    """Asks the judge.

    Args:
        prompts: `rubric` is what it is asked.
    """

    name = "rubric"

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        if room.judge is None:
            return self.skipped("no judge is configured: see [synth.models.judge]")
        review = await room.judge.ask(self._prompts.fill("rubric", {"task": shown(folder)}), Review)
        by_name = {one.name: one for one in review.criteria}
        criteria = {name: {"holds": one.holds, "why": one.why} for name, one in by_name.items()}
        if missing := [name for name in CRITERIA if name not in by_name]:
            return self.skipped(f"the judge said nothing of {', '.join(missing)}", criteria=criteria)
        wrong = [by_name[name] for name in FATAL if not by_name[name].holds]
        if not wrong:
            return self.passed(criteria=criteria, prompts=self._prompts.digests("rubric"))
        detail = "; ".join(f"{one.name}: {one.why}" for one in wrong)
        reason = wrong[0].name.replace("_", "-")
        return self.failed(reason, detail, criteria=criteria, prompts=self._prompts.digests("rubric"))


def shown(folder: Path) -> str:
    """All of a task that is text, as a judge reads it: what matters most first, long files cut."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    order = ("instruction.md", "task.toml", "tests", "solution")
    files.sort(key=lambda path: (next((i for i, name in enumerate(order) if name in path.relative_to(folder).parts), 9), path))
    parts: list[str] = []
    for path in files:
        content = path.read_bytes()[: 4 * _FILE]
        if b"\0" in content or sum(map(len, parts)) > _ALL:
            parts.append(f'<file path="{path.relative_to(folder)}" bytes="{path.stat().st_size}"/>')
            continue
        text = content.decode(errors="replace")
        text = text if len(text) <= _FILE else f"{text[:_FILE]}\n[cut]"
        parts.append(f'<file path="{path.relative_to(folder)}">\n{text}\n</file>')
    return "\n".join(parts)
