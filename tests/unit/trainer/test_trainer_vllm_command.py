"""How vLLM is started."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from services.trainer.vllm.command import WEIGHTS_ROOT, vllm_command
from shared.config import EngineConfig


def test_settings_reach_the_command_line() -> None:
    config = EngineConfig(
        served_name="p", max_model_len=99, dtype="bfloat16", kv_cache_mb=2, max_num_seqs=5, args=["--seed", "7"]
    )
    argv, env = vllm_command(config, 8123, "/m", Path("/run/weights"))
    assert argv[0] == sys.executable
    assert argv[argv.index("serve") + 1] == "/m"
    options = dict(pairwise(argv))
    assert options["--served-model-name"] == "p"
    assert (options["--host"], options["--port"]) == ("127.0.0.1", "8123")
    assert (options["--max-model-len"], options["--max-num-seqs"]) == ("99", "5")
    assert (options["--dtype"], options["--kv-cache-memory-bytes"]) == ("bfloat16", "2097152")
    assert options["--weight-transfer-config"] == '{"backend":"file"}'
    assert argv[-2:] == ["--seed", "7"]
    assert (env[WEIGHTS_ROOT], env["OMP_NUM_THREADS"]) == ("/run/weights", "1")


def test_what_the_supervisor_imports_is_cheap() -> None:
    code = "import sys, services.trainer.vllm.command, services.trainer.weights.serving, services.trainer.service as s; "
    code += "print(sorted({'torch', 'verl', 'vllm', 'transformers'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
