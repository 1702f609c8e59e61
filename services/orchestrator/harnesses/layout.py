"""What a harness image holds, and where: one folder, the same in every container whatever its own image.

/openforge/run.py          what a container starts with
/openforge/manifest.json   name and version of the harness, and whether it needs a glibc in the task's image
/openforge/python/         Python, standard library alone, with its own loader and libraries
/openforge/lib/            those, and the one that sets the clock of programs
/openforge/runner/         the runner
/openforge/node/           Node, for harnesses of npm
/openforge/harness/        the harness: a prefix of npm, or a Python environment
"""

from __future__ import annotations

TOOLS = "/openforge"
RUN = f"{TOOLS}/run.py"
MANIFEST = f"{TOOLS}/manifest.json"
PYTHON = f"{TOOLS}/python/bin/python3"
NODE_BIN = f"{TOOLS}/node/bin"
HARNESS = f"{TOOLS}/harness"
ENTRY = (PYTHON, "-I", "-S", RUN)
"""What a container runs first, and as the parent of all else. It needs nothing of the container's own image."""
