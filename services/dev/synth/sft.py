"""`openforge synth sft`: what a teacher did on accepted tasks and did well, as rows to learn from."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from services.dev.exports.chat import ChatRow, chat_rows
from services.dev.exports.export import Wish, export
from services.dev.exports.selection import Chosen, Filter
from services.synth.makers import models_of
from services.synth.models.judge import ModelJudge
from services.synth.models.kinds import Kept
from services.synth.models.prompts import Prompts
from services.synth.ports import Judge
from shared.config import Config

JUDGED = "judged.json"
_MOST = 60_000
"""Characters of a conversation that a judge is shown: its beginning and its end."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge said of a rollout."""

    rollout_id: str
    task: str
    keep: bool
    why: str


def write_rows(root: Path, run_id: str, judging: Config | None, out: Path | None, min_reward: float, *, redact: bool) -> int:
    """Writes the conversations of a run that succeeded, less those that a judge would not have others learn from.

    Args:
        root: folder of the runs.
        run_id: of the teacher's.
        judging: has the judge; None, or without one in it, there is none.
        out: folder; None for exports/sft of the run.
        min_reward: smallest reward of a success.
        redact: replace secrets and personal paths.

    Returns:
        The exit status: 1 if nothing is left.

    Raises:
        ForgeError: there is no such run, its archive cannot be read, or the judge cannot be asked.
    """
    judge = judging if judging and judging.synth.models.judge.model else None

    def choose(folder: Path, chosen: list[Chosen]) -> list[Chosen]:
        return asyncio.run(_judge_all(judge, folder, chosen)) if judge else chosen

    return export(root, run_id, Wish("sft", out, redact, Filter(min_reward=min_reward), choose))


async def _judge_all(config: Config, folder: Path, chosen: Sequence[Chosen]) -> list[Chosen]:
    models, prompts = models_of(config), Prompts(config.synth.models.prompts)
    try:
        judge = ModelJudge(models)
        said = await asyncio.gather(*(_judged(judge, prompts, one) for one in chosen))
    finally:
        await models.close()
    (folder / JUDGED).write_bytes(msgspec.json.format(msgspec.json.encode(said)))
    kept = [one for one, opinion in zip(chosen, said, strict=True) if opinion.keep]
    told = f"the judge kept {len(kept)} of {len(chosen)} successes, for ${models.budget.usd:.4f}: {folder / JUDGED} says why"
    sys.stderr.write(f"{told}\n")
    return kept


async def _judged(judge: Judge, prompts: Prompts, chosen: Chosen) -> Judged:
    text = "\n\n".join(conversation(row) for row in chat_rows(chosen))
    said = await judge.ask(prompts.fill("keep", {"conversation": clipped(text)}), Kept)
    return Judged(rollout_id=chosen.rollout.rollout_id, task=chosen.rollout.task, keep=said.keep, why=said.why)


def conversation(row: ChatRow) -> str:
    """A conversation as text."""
    lines = []
    for message in row.messages:
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        said = [str(message.get("content") or ""), *(f"{call['name']}({call['arguments']})" for call in calls)]
        lines.append(f"[{message['role']}] " + "\n".join(text for text in said if text))
    return "\n\n".join(lines)


def clipped(text: str) -> str:
    """The beginning and the end of a text that is too long."""
    half = _MOST // 2
    return text if len(text) <= _MOST else f"{text[:half]}\n\n[{len(text) - _MOST} characters left out]\n\n{text[-half:]}"
