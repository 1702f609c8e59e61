"""Experts on a CPU: vLLM 0.30 packs them for its kernel when it makes that kernel, and leaves later weights as they come.

The kernel reads what it takes for packed, so that a model is wrong after its weights were loaded again, with no error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vllm.model_executor.layers.fused_moe.oracle.unquantized import UnquantizedMoeBackend


@contextmanager
def packed_again(model: Any) -> Iterator[None]:
    """Layers whose weights are loaded within the context make their kernel anew, and with it pack them; others keep theirs."""
    methods = [m for m in map(_method, model.modules()) if m is not None]
    kernels = [m.moe_kernel for m in methods]
    for method in methods:
        method.moe_kernel = None
    try:
        yield
    finally:
        for method, kernel in zip(methods, kernels, strict=True):
            method.moe_kernel = method.moe_kernel or kernel


def _method(layer: Any) -> Any:
    """What computes a layer, if it is one of experts on a CPU."""
    method = getattr(layer, "quant_method", None)
    return method if getattr(method, "unquantized_backend", None) is UnquantizedMoeBackend.CPU else None
