"""`make bench-orchestrator`: a thousand rollouts through the orchestrator, against a bare loop over the same cluster.

    python -m tests.bench.orchestrator [--rollouts 1000] [--concurrency 200] [--rounds 1]

A real control plane, nodes that only say that they run pods, and in the same run, in turn: a loop over kubernetes-asyncio that
makes, watches and deletes pods, and the orchestrator from commands on the bus to outcomes on the bus. Then the start of a local
sandbox against bubblewrap's. Progress on stderr, one JSON object as the last line on stdout; the exit status is 0 if all
bounds hold, 1 if not, 2 where no Kubernetes is built.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop
from kubernetes_asyncio import client, config

from services.orchestrator.backends.kubernetes.podspec import Place, pod
from shared.config import ResourcesConfig
from tests.bench.bare_pods import bare
from tests.bench.orchestrated import Orchestrated, ours, settings_of
from tests.bench.sandbox import measure
from tests.kube.boxes import box
from tests.kube.cluster import BUILT, NOT_BUILT, Cluster

NODES = 4
RUNS_S = 0.5
"""How long a pod runs."""
MOST_RATIO = 1.3
MOST_START = 2.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured.

    Attributes:
        rollouts, concurrency: of the run.
        wall_s: from the first command to the last outcome; of the best round.
        bare_api_wall_s: of the bare loop; of the best round.
        ratio: of the two.
        cpu_ms_per_rollout: of the orchestrator with its bus, which is in memory.
        events_lost: rollouts without an outcome, or whose outcome was no success.
        sandbox_p50_ms, bwrap_p50_ms: from asking for a local sandbox to its agent's first word; the same of bubblewrap alone.
    """

    rollouts: int
    concurrency: int
    wall_s: float
    bare_api_wall_s: float
    ratio: float
    cpu_ms_per_rollout: float
    events_lost: int
    sandbox_p50_ms: float
    bwrap_p50_ms: float

    @property
    def good(self) -> bool:
        """All bounds hold."""
        fast = self.ratio <= MOST_RATIO and self.sandbox_p50_ms <= MOST_START * self.bwrap_p50_ms
        return fast and self.events_lost == 0


async def bare_s(cluster: Cluster, namespace: str, number: int, concurrency: int) -> float:
    """Seconds that the bare loop takes."""
    place = Place("bare", settings_of(cluster, namespace), ResourcesConfig())
    pods = [pod(box(f"r{n}-a1", run="bare"), place, "tcp:10.9.9.9:8080", "t") for n in range(number)]
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    configuration.connection_pool_maxsize = concurrency + 1
    async with client.ApiClient(configuration) as api:
        await client.CoreV1Api(api).create_namespace({"metadata": {"name": namespace}})
        await asyncio.sleep(2)  # until the namespace has its service account
        began = time.monotonic()
        await bare(api, namespace, pods, concurrency)
    return time.monotonic() - began


async def main(number: int, concurrency: int, rounds: int, starts: int) -> Figures:
    """Carries one run to its end."""
    with tempfile.TemporaryDirectory(prefix="openforge-bench-") as name:
        folder = Path(name)
        cluster = Cluster(folder / "kubernetes")
        try:
            cluster.up()
            bares, runs = [], []
            with cluster.fake_nodes("--nodes", str(NODES), "--after", str(RUNS_S)):
                for n in range(rounds):
                    bares.append(await bare_s(cluster, f"bare-{n}", number, concurrency))
                    _say(f"bare loop: {bares[-1]:.1f} s")
                    runs.append(await ours(cluster, folder, f"run-{n}", number, concurrency))
                    _say(f"orchestrator: {runs[-1].wall_s:.1f} s, {runs[-1].lost} lost")
        finally:
            cluster.down()
    return _figures(number, concurrency, min(bares), runs, starts)


def _figures(number: int, concurrency: int, bare_s: float, runs: list[Orchestrated], starts: int) -> Figures:
    best, start = min(runs, key=lambda run: run.wall_s), measure(starts)
    return Figures(
        rollouts=number, concurrency=concurrency, wall_s=round(best.wall_s, 2), bare_api_wall_s=round(bare_s, 2),
        ratio=round(best.wall_s / bare_s, 3), cpu_ms_per_rollout=round(best.cpu_s * 1000 / number, 2),
        events_lost=sum(run.lost for run in runs), sandbox_p50_ms=start.sandbox_p50_ms, bwrap_p50_ms=start.bwrap_p50_ms,
    )  # fmt: skip


def _say(text: str) -> None:
    sys.stderr.write(f"[bench] {text}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.orchestrator", description="What orchestrating costs.")
    parser.add_argument("--rollouts", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=200, help="rollouts, and pods of the bare loop, at once")
    parser.add_argument("--rounds", type=int, default=1, help="how often both are run; the best of each counts")
    parser.add_argument("--starts", type=int, default=40, help="of local sandboxes")
    return parser.parse_args()


if __name__ == "__main__":
    args = _arguments()
    if not BUILT.exists():
        _say(NOT_BUILT)
        sys.exit(2)
    figures = uvloop.run(main(args.rollouts, args.concurrency, args.rounds, args.starts))
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
    sys.exit(0 if figures.good else 1)
