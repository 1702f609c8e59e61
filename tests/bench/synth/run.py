"""Runs `openforge synth` on planted proposals, and kills it on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from services.dev.synth.look import trials_of
from services.synth.books import Books
from services.synth.candidate import Candidate
from services.synth.trials import trial_of
from shared.config import Config, load_config
from shared.events import RolloutFinished, RolloutTimedOut, decode
from tests.bench.synth.planting import EVALUATION, PLANTED, Plan

KILLS = "kills.txt"
"""In the folder: what was killed."""
_POLL_S = 0.2
_REPO = Path(__file__).parents[3]


class Bench:
    """One run.

    Args:
        plan: what is planted.
        folder: for everything that it leaves.
        sets: further settings, as `--set` takes them.
        say: told of what happens.
    """

    def __init__(self, plan: Plan, folder: Path, sets: list[str], say: Callable[[str], None]) -> None:
        self._plan, self._folder, self._sets, self._say = plan, folder, sets, say
        (folder / KILLS).touch()

    async def run(self, kills: int) -> tuple[list[Candidate], dict[str, Any]]:
        """Carries it to its end; what it came to, and what else was seen. In a folder that has been begun with it goes on.

        Args:
            kills: how often it is killed: synth alone, then the whole stack, in turn.

        Raises:
            RuntimeError: it ended otherwise than it should.
        """
        began = time.monotonic()
        process = await (self._resume() if self._begun() else self._start("run", str(self._settings())))
        try:
            for number in range(kills):
                await self._until((number + 1) / (kills + 1), process)
                process = await self._kill(process)
            code = await self._end(process)
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        trials = trials_of(Books(self._config()))
        facts = {
            "kills": (self._folder / KILLS).read_text().split(), "exit": code, "wall_s": round(time.monotonic() - began, 1),
            "rollouts": len(trials), "made_again": self._made_again(), "lost": sum(trial.life > 1 for trial in trials),
        }  # fmt: skip
        return list(Books(self._config()).all()), facts

    async def _kill(self, process: asyncio.subprocess.Process) -> asyncio.subprocess.Process:
        """Gives the process that goes on."""
        what = ("synth", "stack")[len((self._folder / KILLS).read_text().split()) % 2]
        self._say(f"kill -9 of {what}, {self._through()} of {self._plan.count} through")
        with (self._folder / KILLS).open("a") as f:
            f.write(f"{what}\n")
        if what == "synth":
            os.kill(_service(process.pid, "synth").pid, signal.SIGKILL)
            return process
        _kill_all(process.pid)
        await process.wait()
        return await self._resume()

    async def _resume(self) -> asyncio.subprocess.Process:
        return await self._start("resume", self._config().run.id, "--root", str(self._folder / "runs"))

    def _settings(self) -> Path:
        file = self._folder / "synth.toml"
        file.write_text(
            f'[run]\nroot = "runs"\n[bus]\nack_wait_s = 3\n[synth]\ngenerator = "tests.bench.synth.planting:maker"\n'
            f'count = {self._plan.count}\nparallel = 4\nto = "made"\n[synth.gates]\nheldout = ["{EVALUATION}"]\n'
            f"[orchestrator]\nconcurrency = {os.cpu_count() or 2}\n"
        )
        return file

    async def _start(self, verb: str, *args: str) -> asyncio.subprocess.Process:
        argv = [sys.executable, "-m", "services.cli", "synth", verb, *args]
        env = {
            **os.environ, "PYTHONPATH": f"{_REPO}:{os.environ.get('PYTHONPATH', '')}", "PYTHONUNBUFFERED": "1",
            PLANTED: ",".join(defect.name for defect in self._plan.planted),
        }  # fmt: skip
        sets = [word for one in self._sets for word in ("--set", one)]
        with (self._folder / "output.txt").open("ab") as out:
            return await asyncio.create_subprocess_exec(*argv, *sets, env=env, cwd=_REPO, stdout=out, stderr=out)

    async def _until(self, share: float, process: asyncio.subprocess.Process) -> None:
        said = -1
        while (through := self._through()) < share * self._plan.count:
            if process.returncode is not None:
                raise RuntimeError(f"it ended with {process.returncode}:\n{self._output()}")
            if through != said:
                said = through
                self._say(f"{through} of {self._plan.count} through")
            await asyncio.sleep(_POLL_S)

    async def _end(self, process: asyncio.subprocess.Process) -> int:
        waiting = asyncio.create_task(process.wait())
        said = -1
        while not waiting.done():
            await asyncio.wait({waiting}, timeout=_POLL_S)
            if (through := self._through()) != said:
                said = through
                self._say(f"{through} of {self._plan.count} through")
        if waiting.result() not in (0, 1):
            raise RuntimeError(f"it ended with {waiting.result()}:\n{self._output()}")
        return waiting.result()

    def _config(self) -> Config:
        [file] = (self._folder / "runs").glob("*/config.json")
        return load_config(file)

    def _begun(self) -> bool:
        return bool(list((self._folder / "runs").glob("*/config.json")))

    def _through(self) -> int:
        return sum(task.over or bool(task.held) for task in Books(self._config()).all()) if self._begun() else 0

    def _made_again(self) -> list[str]:
        """Trials that had a verdict, and got another one."""
        verdicts: Counter[str] = Counter()
        for file in (Books(self._config()).root.parent / "rollouts").glob("*/outcome.json"):
            message = decode(file.read_bytes())
            if isinstance(message, RolloutFinished | RolloutTimedOut):
                verdicts[trial_of(message.rollout_id)[0]] += 1
        return [name for name, count in verdicts.items() if count > 1]

    def _output(self) -> str:
        return (self._folder / "output.txt").read_text(errors="replace")[-4000:]


def _service(supervisor: int, name: str) -> psutil.Process:
    return next(p for p in psutil.Process(supervisor).children() if p.cmdline()[-4:-2] == ["serve", name])


def _kill_all(supervisor: int) -> None:
    """The supervisor first, or it would start the others again; sandboxes are left to whoever comes next."""
    top = psutil.Process(supervisor)
    for process in (top, *top.children()):
        process.kill()
