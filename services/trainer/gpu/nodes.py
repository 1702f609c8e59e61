"""Room for the learner's processes on the nodes of a Ray cluster: that of $RAY_ADDRESS, else one of this machine."""

from __future__ import annotations

import logging
import os
import time

from services.trainer.verl.cpu_platform import PLATFORM  # before all else of veRL: it sets the platform

# isort: split
import ray
from ray.exceptions import RayError
from ray.util import remove_placement_group
from verl.single_controller.ray import RayResourcePool

from shared.config import ParallelConfig
from shared.errors import ForgeError

ADDRESS = "RAY_ADDRESS"
"""Ray's own environment variable: where the head of a cluster is."""
_TRIES = 3
_ROOM_S = 60.0
"""How long the learner waits for processes before it to be gone."""
_POLL_S = 0.5


class Nodes:
    """Room for one or two groups of processes, which share the GPUs.

    Args:
        parallel: how many processes on how many nodes.
        groups: of workers that are to share them.

    Raises:
        ForgeError: the cluster cannot be reached, or has no room.
    """

    def __init__(self, parallel: ParallelConfig, groups: int) -> None:
        self._parallel = parallel
        self._groups = groups
        _connect(2 * parallel.world)  # one with a reference model may follow one without
        self._check_sizes()
        self._wait_for_room()
        self.pool = RayResourcePool([parallel.n_gpus_per_node] * parallel.nnodes, use_gpu=self._gpus, max_colocate_count=groups)
        self.pool.get_placement_groups(device_name=parallel.device)

    @property
    def environment(self) -> dict[str, str]:
        """Of the processes."""
        if self._gpus:
            return {PLATFORM: os.environ.get(PLATFORM, "nvidia")}
        one = {"GLOO_SOCKET_IFNAME": "lo"} if self._parallel.nnodes == 1 else {}
        return {PLATFORM: "cpu", "OMP_WAIT_POLICY": "PASSIVE", **one}

    def close(self) -> None:
        """Gives the room back; processes in it end."""
        groups, self.pool.pgs = self.pool.pgs or [], None
        for group in groups:
            remove_placement_group(group)

    @property
    def _gpus(self) -> bool:
        return bool(self._parallel.device != "cpu")

    @property
    def _resource(self) -> str:
        return "GPU" if self._gpus else "CPU"

    @property
    def _each(self) -> int:
        """What a process takes of the resource."""
        return 1 if self._gpus else self._groups

    def _check_sizes(self) -> None:
        name, needed = self._resource, self._each * self._parallel.n_gpus_per_node
        sizes = [node["Resources"].get(name, 0) for node in ray.nodes() if node["Alive"]]
        if sum(size >= needed for size in sizes) < self._parallel.nnodes:
            raise ForgeError(
                f"the learner needs {self._parallel.nnodes} nodes with {needed} {name}s each, but those of the Ray cluster "
                f"have {', '.join(f'{size:g}' for size in sizes)}; set trainer.parallel.nnodes and n_gpus_per_node, or "
                f"{ADDRESS} to another cluster"
            )

    def _wait_for_room(self) -> None:
        name, needed, until = self._resource, self._each * self._parallel.world, time.monotonic() + _ROOM_S
        while (free := ray.available_resources().get(name, 0)) < needed:
            if time.monotonic() >= until:
                raise ForgeError(f"the learner needs {needed} {name}s, but only {free:g} of the Ray cluster are free")
            time.sleep(_POLL_S)


def _connect(processes: int) -> None:
    """Joins the cluster, or starts one that ends with this process."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would have the learner wait for all else on its machine
    address = os.environ.get(ADDRESS)
    cpus = None if address else max(processes, os.cpu_count() or 1)
    for tries in range(1, _TRIES + 1):
        try:
            ray.init(
                address or "local", num_cpus=cpus, include_dashboard=False, logging_level=logging.WARNING, log_to_driver=False
            )
            return
        except (RayError, ConnectionError, RuntimeError, ValueError) as e:
            raise ForgeError(f"Ray cannot be reached at {address or 'this machine'}: {e}") from e
        except Exception as e:  # Ray raises a bare one when a busy machine starts it too slowly
            ray.shutdown()
            if tries == _TRIES:
                raise ForgeError(f"Ray did not start on this machine: {e}") from e
