"""Settings of what services say of themselves."""

from __future__ import annotations

from typing import Literal

from shared.config.base import Count, Port, Positive, Section, Whole


class MetricsConfig(Section, frozen=True, kw_only=True):
    """Where orchestrator, collector, trainer and synth answer /metrics, /healthz, /readyz and /status; the proxy does on its
    control port.

    Attributes:
        host: address to listen on.
        port: 0 for any that is free (`services/<name>.json` of the run folder says which); a fixed one is for services that
            have a machine, or a pod, each.
        tell_s: seconds between two words of a service in the store, for `openforge status`.
    """

    host: str = "127.0.0.1"
    port: Port = 0
    tell_s: Positive = 5.0


class LogConfig(Section, frozen=True, kw_only=True):
    """What services log; `logs/<service>.jsonl` of the run folder has it in any case.

    Attributes:
        format: on their standard error: `text`, warnings and worse, or `json`, all of it, an object a line, for containers.
        file_mb: size from which such a file is put aside, as `<service>.jsonl.1`.
        older_files: of a service that are kept beside it; the oldest goes.
    """

    format: Literal["text", "json"] = "text"
    file_mb: Count = 32
    older_files: Whole = 3
