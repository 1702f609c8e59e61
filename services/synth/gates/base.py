"""What gates have in common: how a verdict is made, and what a trial that went wrong is called."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.synth.model import Ended, Proposal, Verdict
from services.synth.ports import Room

_SAID = 1500
"""Characters of what agent and verifier printed that a verdict repeats."""


class Looking:
    """A gate. What is its own stands in `look`."""

    name = ""
    compares = False

    async def judge(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Gate.judge`."""
        began = time.monotonic()
        verdict = await self.look(proposal, folder, room)
        return msgspec.structs.replace(verdict, seconds=round(time.monotonic() - began, 3))

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """What it says, without the time that it took."""
        raise NotImplementedError

    def passed(self, detail: str = "", **evidence: Any) -> Verdict:
        """All is well."""
        return Verdict(gate=self.name, outcome="passed", detail=detail, evidence=evidence)

    def skipped(self, why: str, **evidence: Any) -> Verdict:
        """It could not look."""
        return Verdict(gate=self.name, outcome="skipped", detail=why, evidence=evidence)

    def failed(self, reason: str, detail: str, **evidence: Any) -> Verdict:
        """Something is wrong with the task; `detail` says what, and what to do."""
        return Verdict(gate=self.name, outcome="failed", reason=reason, detail=detail, evidence=evidence)


def trouble(ended: Ended) -> tuple[str, str] | None:
    """Why a trial has no reward that counts, as the reason of a verdict and a text; None if it has one."""
    if ended.error.startswith("VerifierTimeout"):
        text = "the verifier did not end in its time: let tests/test.sh wait for nothing, or raise verifier.timeout_sec"
        return "hanging-verifier", _with(text, ended)
    if ended.reward is not None:
        return None
    if ended.error.startswith("VerifierError"):
        return "no-reward", _with("the verifier left no usable reward: tests/test.sh must always write one", ended)
    if ended.error.startswith("ImageError"):
        return "does-not-build", _with("the image could not be built or run: mend environment/Dockerfile", ended)
    return "does-not-run", _with(f"the agent {ended.trial.agent} could not be tried on the task", ended)


def told(ended: Sequence[Ended]) -> list[dict[str, Any]]:
    """Trials as evidence."""
    return [
        {
            "agent": one.trial.agent, "run": one.trial.run, "clock": one.trial.clock, "env": one.trial.env,
            "reward": one.reward, "error": one.error, "seconds": round(one.seconds, 3), "said": one.said[-_SAID:],
            **({"image": one.image} if one.image else {}),
        }
        for one in ended
    ]  # fmt: skip


def said(ended: Ended) -> str:
    """The end of what was printed, to stand in a detail."""
    return f"\nIt printed last:\n{ended.said[-_SAID:]}" if ended.said else ""


def _with(text: str, ended: Ended) -> str:
    return f"{text}. {ended.error}{said(ended)}"
