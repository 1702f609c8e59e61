"""What a stack that makes tasks consists of. Pure."""

from __future__ import annotations

from shared.config import Config, ServiceName


def needs_model(config: Config) -> bool:
    """Whether a model has to be served: somebody tries the tasks, or builds them, in a harness."""
    return bool(config.synth.tester.harness or (config.synth.generator == "models" and config.synth.models.harness))


def services_of(config: Config) -> tuple[ServiceName, ...]:
    """The services that are needed. Sandboxes in containers fetch their work from the proxy, be a model called or not."""
    if needs_model(config) or config.orchestrator.backend != "local":
        return ("proxy", "orchestrator", "collector", "synth")
    return ("orchestrator", "synth")
