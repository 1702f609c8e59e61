"""rllm-model-gateway, the recording gateway that ours is compared with, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.bench.processes import Failed

VERSION = "0.1.0"


def install() -> Path:
    """The program; installed into ``$OPENFORGE_CACHE`` (default ``~/.cache/openforge``) ``/bench`` the first time.

    Raises:
        Failed: it cannot be installed.
    """
    cache = Path(os.environ.get("OPENFORGE_CACHE") or "~/.cache/openforge").expanduser()
    folder = cache / "bench" / f"rllm-model-gateway-{VERSION}"
    if not (folder / "installed").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(folder / "bin" / "pip"), "install", "--quiet", f"rllm-model-gateway=={VERSION}"])
        (folder / "installed").touch()
    return folder / "bin" / "rllm-model-gateway"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr[-600:].strip()}")
