"""vLLM general plugin (entry point group `vllm.general_plugins`): registers the weight-transfer backend `file`.

vLLM calls it in every one of its processes, so it imports nothing heavy and may run more than once.
"""

from __future__ import annotations

BACKEND = "file"


def register() -> None:
    """Makes `--weight-transfer-config '{"backend": "file"}'` known to vLLM."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory as Factory

    from services.trainer.vllm.images import use_pil_processors

    use_pil_processors()
    if BACKEND not in Factory._registry:
        Factory.register_engine(BACKEND, "services.trainer.vllm.file_engine", "FileWeightTransferEngine")
