"""How `vllm serve` is started: settings to argument vector and environment. Pure, and free of heavy imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from shared.config import EngineConfig

WEIGHTS_ROOT = "OPENFORGE_WEIGHTS_ROOT"
"""Environment variable of vLLM's process: the folder that pushed weight files may come from."""
LIBRARIES = Path(sys.prefix) / "lib" / "system"
"""System libraries that the set-up could only put here."""
_MB = 1024 * 1024
_BATCHED_TOKENS = 8192
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # more threads fight over the cores: 0.2 requests a second instead of 17
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_SERVER_DEV_MODE": "1",  # opens the pause, resume and weight-transfer routes
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "TORCHDYNAMO_DISABLE": "1",  # what --enforce-eager leaves to compile costs minutes of a core in every checkout
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
}


def vllm_command(
    config: EngineConfig, port: int, model: str, weights: Path, host: str = "127.0.0.1"
) -> tuple[list[str], dict[str, str]]:
    """Argument vector, and variables to add to the environment, of a vLLM that serves a model folder.

    Args:
        config: the engine's settings.
        port: port to listen on.
        model: folder to serve, as made by `services.trainer.weights.serving`.
        weights: folder that pushed weight files may come from.
        host: address to listen on. Whoever reaches it may load weights: let nobody but proxies and the trainer.
    """
    argv = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model]
    argv += ["--served-model-name", config.served_name, "--host", host, "--port", str(port)]
    argv += ["--max-model-len", str(config.max_model_len), "--dtype", config.dtype, "--enforce-eager"]
    argv += ["--max-num-seqs", str(config.max_num_seqs), "--kv-cache-memory-bytes", str(config.kv_cache_mb * _MB)]
    # On a CPU it dies ("CPU Generator does not use offset") when the prompt of a seeded request is taken in pieces.
    argv += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(max(config.max_model_len, _BATCHED_TOKENS))]
    argv += ["--enable-auto-tool-choice", "--tool-call-parser", config.tool_parser, "--enable-scale-out"]
    argv += ["--weight-transfer-config", '{"backend":"file"}', "--distributed-executor-backend", "uni"]
    argv += ["--logprobs-mode", "processed_logprobs"]  # of the distribution that is sampled from: the temperature counts
    argv += ["--disable-uvicorn-access-log", *config.args]
    return argv, {**_ENVIRONMENT, WEIGHTS_ROOT: str(weights), "LD_LIBRARY_PATH": _library_path(os.environ)}


def _library_path(environment: Mapping[str, str]) -> str:
    return ":".join(filter(None, [environment.get("LD_LIBRARY_PATH"), str(LIBRARIES)]))
