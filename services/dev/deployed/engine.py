"""`openforge engine`: this process becomes vLLM, which serves the model of a stack and takes pushes of weights."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from services.app import run_folder
from services.dev.preflight import check_model_folder
from services.trainer.vllm.command import vllm_command
from services.trainer.weights.serving import make_serving_copy
from shared.config import Config


def become_engine(config: Config, host: str, port: int, copy: Path) -> NoReturn:
    """Makes the copy that is served, and turns this process into vLLM.

    Args:
        config: of the stack. Weights are pushed through `weights` of its run folder, which trainer and engine share.
        host, port: to listen on.
        copy: folder for the served copy; nobody else may use it.

    Raises:
        ConfigError: engine.model is no model folder.
        OSError: the copy cannot be written.
    """
    check_model_folder(config)
    make_serving_copy(Path(config.engine.model), copy)
    argv, env = vllm_command(config.engine, port, str(copy), run_folder(config) / "weights", host)
    sys.stderr.write(f"serving {config.engine.model} as {config.engine.served_name} on {host}:{port}\n")
    sys.stderr.flush()
    os.execve(argv[0], argv, os.environ | env)
