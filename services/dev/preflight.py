"""What must hold before a single process is started. Each failure names its way out."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from services.trainer.books.trackers import check_trackers
from services.trainer.run import learner_settings
from services.trainer.sft.rows import rows_file
from shared.config import Config
from shared.errors import ConfigError, TaskError
from shared.task import list_tasks, load_task

_MB = 1024 * 1024


def check_disk(config: Config) -> None:
    """Raises ConfigError when the run folder's disk is nearly full."""
    root = Path(config.run.root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root).free // _MB
    except OSError as e:
        raise ConfigError(f"run.root {root}: {e.strerror}; pass --set run.root=FOLDER for one that can be written") from None
    if free < config.run.min_free_mb:
        raise ConfigError(
            f"the disk of {root} is full: {free} MB free, run.min_free_mb asks for {config.run.min_free_mb}; "
            "free some space (`openforge runs prune --keep 5`), or pass --set run.root=FOLDER on another disk"
        )


def check_ports(config: Config) -> None:
    """Raises ConfigError when a port that was asked for is taken."""
    for setting, port in (("proxy.port", config.proxy.port), ("proxy.control_port", config.proxy.control_port)):
        if port:
            _check_port(config.proxy.host, port, setting)


def _check_port(host: str, port: int, setting: str) -> None:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError as e:
            raise ConfigError(
                f"{setting} {port} on {host} cannot be had ({e.strerror}); pass --set {setting}=0 for a free one"
            ) from None


def check_model(config: Config) -> None:
    """Raises ConfigError when there is neither an engine to talk to nor a model to serve."""
    if config.engine.url and config.engine.urls:
        raise ConfigError("engine.url and engine.urls are both set; leave the first out where there are several")
    if not config.engine.addresses and not config.engine.command:
        check_model_folder(config)


def check_model_folder(config: Config) -> None:
    """Raises ConfigError when the model is none that could be served or trained."""
    if not config.engine.model:
        raise ConfigError(
            "engine.model is not set: the folder of a Hugging Face model that training starts from "
            "(`make demo` makes the example's; engine.url names a vLLM that runs already)"
        )
    if not (Path(config.engine.model) / "config.json").is_file():
        raise ConfigError(f"engine.model {config.engine.model}: not a model folder (it has no config.json)")


def check_teacher(config: Config) -> None:
    """Raises ConfigError when a teacher is wanted and not there to be asked."""
    if config.proxy.mode != "teacher":
        return
    if not config.engine.addresses:
        raise ConfigError("engine.url is not set: the teacher's base URL, without /v1")
    if config.engine.key_env and not os.environ.get(config.engine.key_env):
        raise ConfigError(
            f"engine.key_env: the environment variable {config.engine.key_env} is not set; put the teacher's key there"
        )


def check_trainable(config: Config) -> None:
    """Raises ConfigError when the calls that the proxy records could not be trained on, or no weights be loaded."""
    if config.proxy.mode == "teacher":
        raise ConfigError(
            'proxy.mode = "teacher": calls are recorded as text, without the token ids that RL trains on; run a teacher with '
            "`openforge eval CONFIG --tasks FOLDER` and export that run for a warm start (docs/sft.md), or pass "
            "--set proxy.mode=splice to train a model that vLLM serves"
        )
    learner_settings(config)


def check_capacity(config: Config) -> None:
    """Raises ConfigError when the run shares a pool with others, and there is no server where they meet."""
    capacity = config.orchestrator.capacity
    if capacity.pool and not (capacity.url or config.store.url):
        raise ConfigError(
            f"the pool {capacity.pool!r} is shared with other runs, but the store that this run starts is its own: set "
            "orchestrator.capacity.url (or store.url) to a Redis that all of them reach"
        )


def check_tasks(config: Config) -> None:
    """Raises TaskError or ConfigError when a task of the run cannot be used."""
    wanted = {"tasks.train": config.tasks.train if config.trainer.steps else ""}
    wanted["tasks.heldout"] = config.tasks.heldout if config.trainer.eval_episodes else ""
    if config.trainer.steps and not config.tasks.train:
        raise ConfigError("tasks.train is not set: a folder of Harbor-format tasks, as in examples/lookup/tasks/train")
    if config.trainer.eval_episodes and not config.tasks.heldout:
        raise ConfigError("tasks.heldout is not set: a folder of tasks, or pass --set trainer.eval_episodes=0")
    for name, folder in wanted.items():
        for task in list_tasks(Path(folder)) if folder else []:
            try:
                load_task(task)
            except TaskError as e:
                raise TaskError(f"{name}: {e}") from None


def check_warm_start(config: Config) -> None:
    """Raises ConfigError when the rows of the warm start are missing."""
    if config.trainer.warm_start.rows:
        rows_file(config.trainer.warm_start.rows)


def check_run(config: Config) -> None:
    """All that a training run needs."""
    check_disk(config)
    check_ports(config)
    check_model(config)
    check_teacher(config)
    check_trainable(config)
    check_capacity(config)
    check_tasks(config)
    check_warm_start(config)
    check_trackers(config)


def check_stack(config: Config) -> None:
    """All that a stack without a training run needs."""
    check_disk(config)
    check_ports(config)
    check_model(config)
    check_teacher(config)
    check_capacity(config)
