"""veRL on a CPU: a platform and the FSDP engines, registered through veRL's own extension points.

Importing this module makes the CPU veRL's platform in this process, unless veRL's variable `VERL_PLATFORM` names another one;
it has to come before any other part of veRL asks for one. The accelerator-only parts of the interface answer what veRL accepts
from a device without them.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry, set_platform

KIB = 1024
PLATFORM = "VERL_PLATFORM"
"""veRL's environment variable that names a platform: `cpu` is this one, `nvidia` is of GPUs."""


class _CpuModule:
    """`torch.cpu` plus the memory statistics and random state that veRL's workers ask of ``torch.<device>``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    @staticmethod
    def max_memory_allocated(*_: Any) -> int:
        """Peak resident bytes of this process."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB

    max_memory_reserved = memory_allocated = memory_reserved = max_memory_allocated

    @staticmethod
    def mem_get_info(*_: Any) -> tuple[int, int]:
        """(available, total) bytes of the machine."""
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page

    @staticmethod
    def reset_peak_memory_stats(*_: Any) -> None: ...

    @staticmethod
    def empty_cache() -> None: ...

    @staticmethod
    def set_device(*_: Any) -> None: ...

    @staticmethod
    def manual_seed(seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    @staticmethod
    def get_rng_state(*_: Any) -> torch.Tensor:
        return torch.get_rng_state()

    @staticmethod
    def set_rng_state(state: torch.Tensor, *_: Any) -> None:
        torch.set_rng_state(state)

    @staticmethod
    def get_device_name(*_: Any) -> str:
        return "cpu"


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):  # type: ignore[misc]  # veRL ships no types
    """The CPU as veRL's device."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _CpuModule()

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "OPENFORGE_VISIBLE_CPUS"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "CPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {"num_cpus": num_gpus}

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


if os.environ.setdefault(PLATFORM, "cpu") == "cpu":
    set_platform(PlatformCPU())


def register_engine() -> None:
    """Has veRL's FSDP language-model engine replay experts, on the platform of this process. Once per process."""
    from verl.utils.device import get_device_name, get_vendor
    from verl.workers.engine.base import EngineRegistry

    from services.trainer.verl.routing import ReplayingEngine

    # An engine of a vendor goes before veRL's own, which is of the device.
    EngineRegistry.register("language_model", ["fsdp", "fsdp2"], get_device_name(), get_vendor())(ReplayingEngine)
