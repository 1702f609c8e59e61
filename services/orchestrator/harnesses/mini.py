"""`mini`: mini-swe-agent 2.4.6, unmodified, in an environment of its own that `scripts/install-mini.sh` makes.

Metadata of a task that it reads: `max_turns` (model calls; 0, the default, leaves it to the program's own settings).
"""

from __future__ import annotations

import os
from pathlib import Path

from services.orchestrator.harnesses import Launch, Request
from shared.errors import HarnessError

VERSION = "2.4.6"
MAX_ARGUMENT = 100_000  # bytes; the kernel refuses a longer argument than 128 kB


class Mini:
    """The program lies in ``$OPENFORGE_CACHE`` (default ``~/.cache/openforge``) ``/harness/mini-swe-agent-2.4.6``."""

    def launch(self, request: Request) -> Launch:
        environment = mini_environment()
        if len(request.instruction.encode()) > MAX_ARGUMENT:
            raise HarnessError(
                f"the task's instruction is longer than the {MAX_ARGUMENT} bytes that mini-swe-agent can be given"
            )
        turns = request.metadata.get("max_turns", 0)
        return Launch(
            argv=(
                f"{environment}/bin/mini", "-y", "--exit-immediately", "-m", f"openai/{request.model}",
                "-t", request.instruction, "-o", f"{request.logs}/agent/trajectory.json",
                "-c", "mini.yaml", "-c", "model.cost_tracking=ignore_errors", "-c", f"agent.step_limit={turns}",
            ),
            env={
                "OPENAI_API_KEY": "none", "OPENAI_API_BASE": request.base_url, "OPENAI_BASE_URL": request.base_url,
                "MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_SILENT_STARTUP": "1",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False",
            },
            read_only=(environment, _base_prefix(environment)),
        )  # fmt: skip


def mini_environment() -> Path:
    """Where mini-swe-agent is installed.

    Raises:
        HarnessError: it is not; the text names the command that installs it.
    """
    cache = Path(os.environ.get("OPENFORGE_CACHE") or "~/.cache/openforge").expanduser()
    environment = cache / "harness" / f"mini-swe-agent-{VERSION}"
    if not (environment / "installed").exists():
        raise HarnessError(f"mini-swe-agent {VERSION} is not installed in {environment}; run scripts/install-mini.sh")
    return environment


def _base_prefix(environment: Path) -> Path:
    """Installation that the environment's Python belongs to: `home` of pyvenv.cfg is its bin folder."""
    for line in (environment / "pyvenv.cfg").read_text().splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return Path(value.strip()).resolve().parent
    raise HarnessError(f"{environment} is no virtual environment (pyvenv.cfg names no home); run scripts/install-mini.sh again")
