"""A run from its start to its end, stage by stage."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import msgspec

from services.trainer.evaluate import Score, evaluate
from services.trainer.model import vocab_size
from services.trainer.ports import LearnerSettings
from services.trainer.publish import Publisher
from services.trainer.sft import WarmStart
from services.trainer.tasks import TaskOrder, find_tasks
from services.trainer.tools import Tools
from services.trainer.training import Training
from shared.config import Config
from shared.errors import ConfigError, ForgeError
from shared.events import RunEvaluated, RunFinished

log = logging.getLogger(__name__)

_EVERY = 10
"""Steps of the warm start between two reports."""
_REPORT_S = 60.0
"""How long the learner's thread waits until a report is on the bus."""


class Run:
    """One run. `execute` carries it to its end and reports that, whatever happens on the way."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._config = tools.config
        self._began = time.monotonic()

    async def execute(self) -> None:
        """Carries the run to its end.

        Raises:
            BusUnavailable: the end could not be reported; `summary.json` has it.
        """
        self._save_summary()
        error = await self._outcome()
        self._save_summary()
        self._tools.summary.ok, self._tools.summary.error = not error, error or self._imbalance()
        self._save_summary()
        await self._tools.desk.cancel("the run ended")
        await self._tools.engine.close()
        await self._tools.bus.publish(self._finished())

    async def _outcome(self) -> str:
        """Runs all stages. Returns one line for a person if one failed; the log has the traceback."""
        try:
            await self._stages()
        except ForgeError as e:
            log.error("the run failed", exc_info=e)
            return " ".join(str(e).split())
        except asyncio.CancelledError:
            return "the trainer was stopped"
        except Exception as e:
            log.exception("the run failed")
            return f"{type(e).__name__}: {' '.join(str(e).split())[:300]}; the trainer's log has the traceback"
        return ""

    def _imbalance(self) -> str:
        """One line if the books do not balance, which spoils no run but has to be known."""
        unaccounted = self._tools.summary.tokens_unaccounted
        return f"{unaccounted} sampled tokens are unaccounted for; see tokens_* in summary.json" if unaccounted else ""

    async def _stages(self) -> None:
        tools, config = self._tools, self._config.trainer
        await tools.stage("loading", "reading tasks")
        base = Path(self._config.engine.model)
        publisher = Publisher(tools, vocab_size(base))
        order = TaskOrder(find_tasks(self._config.tasks.train, "tasks.train"), self._config.run.seed, config.quarantine_after)
        heldout = find_tasks(self._config.tasks.heldout, "tasks.heldout") if config.eval_episodes else []
        model = await self._warm_start(base)
        await tools.stage("loading", f"loading {model.name}")
        learner = await tools.thread.run(tools.factory, model, learner_settings(self._config))
        await tools.stage("engine", "waiting for the inference engine")
        await tools.engine.wait_healthy(self._config.engine.start_timeout_s)
        await tools.engine.open_transfer()
        training = Training(tools, learner, publisher, order)
        async with publisher.watching():
            await publisher.publish(learner, training.version)
            await self._evaluate("before", heldout, publisher, training.version)
            for step in range(1, config.steps + 1):
                await training.step(step)
                if step == config.steps or (config.save_freq and step % config.save_freq == 0):
                    await tools.thread.run(tools.files.save_checkpoint, learner, step)
                self._save_summary()
            await self._evaluate("after", heldout, publisher, training.version)
        await tools.stage("saving", "writing the trained model")
        await tools.thread.run(learner.save_model, tools.files.weights / "final")

    async def _warm_start(self, base: Path) -> Path:
        """The model to train: `base`, or what the configured warm start makes of it."""
        config, tools = self._config.trainer.warm_start, self._tools
        if not config.rows:
            return base
        loop = asyncio.get_running_loop()

        def progress(step: int, steps: int, text: str) -> None:
            tools.thread.check()
            if step % _EVERY == 0 or step == steps:
                told = tools.stage("warm start", text, step, steps)
                asyncio.run_coroutine_threadsafe(told, loop).result(_REPORT_S)

        await tools.stage("warm start", "loading the learner", 0, config.steps)
        warm = WarmStart(base, config, learner_settings(self._config), tools.files.weights)
        return await tools.thread.run(warm.run, tools.factory, progress)

    async def _evaluate(self, label: str, tasks: list[Path], publisher: Publisher, version: int) -> None:
        episodes = self._config.trainer.eval_episodes
        if not episodes:
            return
        stage = f"evaluate {label}"

        async def tell(done: int, total: int) -> None:
            await self._tools.stage(stage, "held-out episodes", done, total)

        await tell(0, episodes)
        score = await evaluate(self._tools.desk, tasks, episodes, label, self._config.trainer.step_timeout_s, tell)
        await publisher.check_served(version)
        self._note(label, score)
        await self._tools.bus.publish(
            RunEvaluated(run_id=self._config.run.id, label=label, success=score.success, episodes=score.scored, version=version)
        )

    def _note(self, label: str, score: Score) -> None:
        summary = self._tools.summary
        if label == "before":
            summary.heldout_before, summary.unscored_before = score.success, score.unscored
        else:
            summary.heldout_after, summary.unscored_after = score.success, score.unscored
        self._save_summary()

    def _save_summary(self) -> None:
        self._tools.summary.enter(self._tools.ledger)
        self._tools.summary.wall_s = time.monotonic() - self._began
        self._tools.files.write_summary(self._tools.summary)

    def _finished(self) -> RunFinished:
        summary = self._tools.summary
        return RunFinished(run_id=summary.run_id, ok=summary.ok, error=summary.error, summary=msgspec.to_builtins(summary))


def learner_settings(config: Config) -> LearnerSettings:
    """The learner's settings for RL.

    Raises:
        ConfigError: rollouts would be greedy, or a row could be longer than a micro-batch.
    """
    trainer, budget = config.trainer, config.trainer.actor.ppo_max_token_len_per_gpu
    if config.engine.max_model_len > budget:
        raise ConfigError(
            f"a row may have engine.max_model_len = {config.engine.max_model_len} tokens, and is never cut for training; set "
            f"trainer.actor.ppo_max_token_len_per_gpu = {budget} to as many or more"
        )
    if not config.proxy.temperature:
        raise ConfigError("proxy.temperature is 0: greedy rollouts do not explore, and have no log-probs to learn from")
    return LearnerSettings(
        algorithm=trainer.algorithm,
        actor=trainer.actor,
        optim=trainer.optim,
        steps=trainer.steps,
        threads=trainer.threads,
        seed=config.run.seed,
        temperature=config.proxy.temperature,
    )
