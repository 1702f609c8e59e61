"""`${NAME}` and `${NAME:-default}` in the values that a task gives to environments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared.errors import TaskError

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_PRIVATE = "OPENFORGE"


def expand(env: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """Fills `${NAME}` and `${NAME:-default}` in the values of `env` from the host's environment.

    The project's own variables (`OPENFORGE...`, among them keys) count as not set.

    Raises:
        TaskError: a variable without default is not set.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        found = default if name.startswith(_PRIVATE) else host.get(name, default)
        if found is None:
            raise TaskError(f"the task needs the environment variable {name}; set it where the orchestrator is started")
        return found

    return {key: _VARIABLE.sub(value, text) for key, text in env.items()}
