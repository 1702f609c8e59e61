"""A run from its start to its end, stage by stage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from services.trainer.books.meter import Meter
from services.trainer.ending import end_rollouts, final_books
from services.trainer.evaluation.evaluate import evaluate, evaluation_metrics, write_report
from services.trainer.groups.rollouts import Rollouts
from services.trainer.groups.tasks import TaskOrder, find_tasks
from services.trainer.journal.records import Evaluated, Saved
from services.trainer.journal.resume import TakenUp, run_folder, save, take_up
from services.trainer.model import vocab_size
from services.trainer.ports import Learner, LearnerSettings
from services.trainer.sft.stage import WarmStart
from services.trainer.tools import Tools
from services.trainer.training import Training, report
from services.trainer.weights.publish import Publisher
from shared.config import Config, TrainerConfig
from shared.errors import ConfigError, ForgeError
from shared.events import RunEvaluated

log = logging.getLogger(__name__)

STOPPED = "the trainer was stopped"
_EVERY = 10
"""Steps of the warm start between two reports."""
_REPORT_S = 60.0
"""How long the learner's thread waits until a report is on the bus."""


class Run:
    """One run. `execute` carries it to its end, whatever happens on the way, and does nothing again that was done before."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._config = tools.config
        self._state = tools.history.state
        self._learning: Learner | None = None

    async def execute(self) -> None:
        """Carries the run to its end. What came of it is in the summary.

        Raises:
            BusUnavailable: the end of rollouts could not be asked for.
        """
        self._save_summary()
        error = await self._outcome()
        if error != STOPPED:  # rollouts of a trainer that is stopped go on: the next one takes them up
            await end_rollouts(self._tools, ok=not error)
            if self._learning is not None:
                await self._tools.thread.run(self._learning.close)
        self._save_summary(failed=bool(error))
        self._tools.summary.ok, self._tools.summary.error = not error, error or self._imbalance()
        self._save_summary(failed=bool(error))
        await self._tools.engine.close()

    async def _outcome(self) -> str:
        """Runs all stages. Returns one line for a person if one failed; the log has the traceback."""
        try:
            await self._stages()
        except ForgeError as e:
            log.error("the run failed", exc_info=e)
            return " ".join(str(e).split())
        except asyncio.CancelledError:
            return STOPPED
        except Exception as e:
            log.exception("the run failed")
            return f"{type(e).__name__}: {' '.join(str(e).split())[:300]}; the trainer's log has the traceback"
        return ""

    def _imbalance(self) -> str:
        """One line if the books do not balance, which spoils no run but has to be known."""
        unaccounted = self._tools.summary.tokens_unaccounted
        return f"{unaccounted} sampled tokens are unaccounted for; see tokens_* in summary.json" if unaccounted else ""

    async def _stages(self) -> None:
        tools, config, state = self._tools, self._config.trainer, self._state
        await tools.stage("loading", "reading tasks")
        base = Path(self._config.engine.model)
        publisher = Publisher(tools, vocab_size(base))
        if state.planned or state.groups or state.evaluated:  # rollouts of the run may wait for an engine
            await publisher.shut_unproven(state.version)
        tasks = find_tasks(self._config.tasks.train, "tasks.train")
        order = TaskOrder(tasks, self._config.run.seed, config.quarantine_after, state.position, state.failures)
        heldout = find_tasks(self._config.tasks.heldout, "tasks.heldout") if config.eval_episodes else []
        taken = await self._learner(await self._warm_start(base))
        learner = self._learning = taken.learner
        await self._wait_for_engine()
        rollouts = Rollouts(tools, order)
        training = Training(tools, learner, publisher, rollouts, taken.metrics)
        async with publisher.watching():
            await training.publish()
            await self._evaluate("before", heldout, publisher)
            await tools.desk.reopen()
            await self._train(training, learner, partial(self._evaluate_midway, heldout, publisher))
            await self._evaluate("after", heldout, publisher)
        if state.saved != state.step:
            await tools.stage("saving", "writing the trained model")
            await tools.thread.run(learner.save_model, tools.files.weights / "final")
            await tools.history.note(Saved(step=state.step))

    async def _learner(self, model: Path) -> TakenUp:
        """A learner that knows all that the run has learned so far."""
        await self._tools.stage("loading", f"loading {model.name}")
        return await take_up(self._tools, partial(self._tools.factory, model, learner_settings(self._config)))

    async def _wait_for_engine(self) -> None:
        tools = self._tools
        await tools.stage("engine", "waiting for the inference engine")
        await tools.engine.wait_healthy(self._config.engine.start_timeout_s)
        await tools.engine.open_transfer()

    async def _train(self, training: Training, learner: Learner, evaluate_midway: Callable[[], Awaitable[None]]) -> None:
        tools, config, state = self._tools, self._config.trainer, self._state
        if state.last is not None:  # the trainer may have died before it told of it, or in the checkpoint
            await report(tools, state.last)
            await self._checkpoint(learner)
            await evaluate_midway()
        while state.step < config.steps:
            await training.step(state.step + 1)
            await self._checkpoint(learner)
            await evaluate_midway()
            self._save_summary()

    async def _checkpoint(self, learner: Learner) -> None:
        """Saves one where one is due and not there."""
        config, step = self._config.trainer, self._state.step
        due = step == config.steps or (config.save_freq and step % config.save_freq == 0)
        if due and not any(c.step == step for c in self._tools.files.checkpoints.all()):
            await save(self._tools, learner)

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

    async def _evaluate_midway(self, heldout: list[Path], publisher: Publisher) -> None:
        """Evaluates where it is due after a step; the last step's is the run's own."""
        config, step = self._config.trainer, self._state.step
        if config.test_freq and step % config.test_freq == 0 and step < config.steps:
            await self._evaluate(f"step-{step}", heldout, publisher)

    async def _evaluate(self, label: str, tasks: list[Path], publisher: Publisher) -> None:
        """Measures success on the held-out tasks, unless that was done of these weights."""
        tools, version, episodes = self._tools, self._state.version, self._config.trainer.eval_episodes
        done = self._state.evaluated.get(label)
        if not episodes or (done is not None and (label == "before" or done.version == version)):
            return
        stage = f"evaluate {label}"

        async def tell(done: int, total: int) -> None:
            await tools.stage(stage, "held-out episodes", done, total)

        await tell(0, episodes)
        meter = Meter(tools.engine, tools.history)
        await meter.read()
        # Measured again after further steps, the groups need names of their own.
        name = label if done is None else f"{label}-v{version}"
        score = await evaluate(tools.desk, tasks, self._config, name, tell)
        await publisher.check_served(version)
        await meter.read(apart=tools.desk.sampled_apart())
        made = Evaluated(label=label, version=version, success=score.success, episodes=score.scored, unscored=score.unscored)
        write_report(score, run_folder(self._config))
        tools.files.metrics.add_evaluation(self._state.step, score.at, evaluation_metrics(score))
        await tools.history.note(made)
        self._save_summary()
        await tools.bus.publish(
            RunEvaluated(run_id=self._config.run.id, label=label, success=score.success, episodes=score.scored, version=version)
        )

    def _save_summary(self, failed: bool = False) -> None:
        self._tools.summary.enter(self._state, final_books(self._state, ok=not failed))
        self._tools.summary.wall_s = self._tools.history.wall_s
        self._tools.files.write_summary(self._tools.summary)


def _check_megatron(trainer: TrainerConfig) -> None:
    """Raises ConfigError where veRL's Megatron engine cannot run."""
    if not (trainer.parallel.nnodes and trainer.parallel.device == "cuda"):
        raise ConfigError("trainer.parallel.strategy = megatron needs GPUs: set nnodes there, or the strategy to fsdp2")
    if trainer.lora.lora_rank:
        raise ConfigError("trainer.lora is fsdp2's: under megatron set trainer.lora.lora_rank = 0")


def learner_settings(config: Config) -> LearnerSettings:
    """The learner's settings for RL.

    Raises:
        ConfigError: rollouts would be greedy, a row could be longer than a micro-batch, or it asks for Megatron where that
            cannot be.
    """
    trainer, budget = config.trainer, config.trainer.actor.ppo_max_token_len_per_gpu
    if config.engine.max_model_len > budget:
        raise ConfigError(
            f"a row may have engine.max_model_len = {config.engine.max_model_len} tokens, and is never cut for training; set "
            f"trainer.actor.ppo_max_token_len_per_gpu = {budget} to as many or more"
        )
    if (parallel := trainer.parallel).strategy == "megatron" and not (parallel.nnodes and parallel.device == "cuda"):
        raise ConfigError(
            "trainer.parallel.strategy = megatron needs GPUs: set trainer.parallel.nnodes, or the strategy to fsdp2"
        )
    if trainer.parallel.strategy == "megatron" and trainer.lora.lora_rank:
        raise ConfigError("trainer.lora is fsdp2's: under megatron set trainer.lora.lora_rank = 0")
    if not config.proxy.temperature:
        raise ConfigError("proxy.temperature is 0: greedy rollouts do not explore, and have no log-probs to learn from")
    return LearnerSettings(
        algorithm=trainer.algorithm,
        actor=trainer.actor,
        optim=trainer.optim,
        lora=trainer.lora,
        parallel=trainer.parallel,
        steps=trainer.steps,
        threads=trainer.threads,
        seed=config.run.seed,
        temperature=config.proxy.temperature,
    )
