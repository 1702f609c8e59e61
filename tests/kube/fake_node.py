"""Nodes that only say that they run pods, so that thousands cost nothing.

    python -m tests.kube.fake_node KUBECONFIG PKI --nodes 4

Every pod that is bound to one of them gets an address and runs. It ends after `--after` seconds, or as its labels say:
`fake-after` (seconds), `fake-exit` (code) and `fake-message` (last words). A deletion, or a deadline that
is over, is obeyed at once.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes_asyncio import client, config

from services.orchestrator.backends.kubernetes.podnames import DOMAIN
from services.orchestrator.backends.kubernetes.podspec import END_NOW_S, MAIN
from tests.kube.boxes import DONE, REWARDED

PODS_PER_NODE = 1000
SIZE = {"cpu": "1000", "memory": "4000Gi", "pods": str(PODS_PER_NODE), "ephemeral-storage": "4000Gi"}
REQUESTS = 32
LOG = "--- agent ---\nsome words\n"
LEASE_S = 5.0
CANCELLED = {"exitCode": 0, "reason": "Completed", "message": DONE.replace("done", "cancelled")}
PATCH = "application/strategic-merge-patch+json"


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class FakeNodes:
    """Some nodes, and the pods on them.

    Args:
        api: to the cluster.
        names: of the nodes.
        port: where they give logs.
        after_s: how long pods run; None: until they are deleted.
    """

    def __init__(self, api: client.ApiClient, names: list[str], port: int, after_s: float | None) -> None:
        self._core, self._leases = client.CoreV1Api(api), client.CoordinationV1Api(api)
        self._names, self._port = names, port
        self._after_s = after_s
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by pod uid
        self._leaving: set[str] = set()
        self._slots = asyncio.Semaphore(REQUESTS)

    async def register(self) -> None:
        """Makes the nodes, ready for pods."""
        for name in self._names:
            labels = {"kubernetes.io/hostname": name, name.rpartition("-")[0]: "yes"}
            await self._ask(self._core.create_node, {"metadata": {"name": name, "labels": labels}})
            await self._renew(name)
            await self._ask(self._core.patch_node, name, {"spec": {"taints": []}})

    async def run(self) -> None:
        """Runs what is bound to the nodes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._live())
            while True:
                try:
                    await self._watch(group)
                except (aiohttp.ClientError, TimeoutError, OSError):
                    await asyncio.sleep(0.2)

    async def _live(self) -> None:
        while True:
            for name in self._names:
                await self._renew(name)
            await asyncio.sleep(LEASE_S)

    async def _renew(self, name: str) -> None:
        """Says that a node lives: the cluster takes one for lost that is silent, or that a dead API server did not hear."""
        renewed = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
        lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec}
        if await self._ask(self._leases.patch_namespaced_lease, name, "kube-node-lease", lease) == 404:
            await self._ask(self._leases.create_namespaced_lease, "kube-node-lease", lease)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now()}
        status = {
            "capacity": SIZE, "allocatable": SIZE, "conditions": [ready],
            "addresses": [{"type": "Hostname", "address": "localhost"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
        }  # fmt: skip
        await self._ask(self._core.patch_node_status, name, {"status": status}, _content_type=PATCH)

    async def _watch(self, group: asyncio.TaskGroup) -> None:
        watching = await self._core.list_pod_for_all_namespaces(watch=True, _preload_content=False)
        async with watching as response:
            while line := await response.content.readline():
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    self._see(event["type"], event["object"], group)

    def _see(self, kind: str, pod: dict[str, Any], group: asyncio.TaskGroup) -> None:
        about = pod["metadata"]
        uid = about["uid"]
        if kind == "DELETED":
            self._leaving.discard(uid)
            if task := self._tasks.pop(uid, None):
                task.cancel()
        elif pod["spec"].get("nodeName") not in self._names:
            return
        elif about.get("deletionTimestamp"):
            if uid not in self._leaving:
                self._leaving.add(uid)
                group.create_task(self._delete(about))
        elif pod["spec"].get("activeDeadlineSeconds") == END_NOW_S:
            if uid not in self._leaving:
                self._leaving.add(uid)
                self._tasks.pop(uid).cancel()
                group.create_task(self._set(pod, "Failed", {"terminated": CANCELLED}, "DeadlineExceeded"))
        elif uid not in self._tasks and pod["status"].get("phase", "Pending") in ("Pending", "Running"):
            self._tasks[uid] = group.create_task(self._carry(pod))

    async def _carry(self, pod: dict[str, Any]) -> None:
        wish = {key.removeprefix(DOMAIN): value for key, value in pod["metadata"].get("annotations", {}).items()}
        if pod["status"].get("phase") != "Running":
            await self._set(pod, "Running", {"running": {"startedAt": now()}})
        after = wish.get("fake-after", self._after_s)
        if after is None:
            return
        await asyncio.sleep(float(after))
        code = int(wish.get("fake-exit", "0"))
        end = {"exitCode": code, "reason": "Error" if code else "Completed", "message": wish.get("fake-message", REWARDED)}
        await self._set(pod, "Failed" if code else "Succeeded", {"terminated": end})

    async def _set(self, pod: dict[str, Any], phase: str, state: dict[str, Any], reason: str | None = None) -> None:
        def statuses(of: str, state: dict[str, Any]) -> list[dict[str, Any]]:
            return [
                {"name": c["name"], "image": c["image"], "imageID": "", "ready": True, "restartCount": 0, "state": state}
                for c in pod["spec"].get(of, [])
            ]

        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now()} for kind in ("Initialized", "Ready", "PodScheduled")
        ]
        status = {
            "phase": phase, "reason": reason, "podIP": "10.9.9.9", "startTime": now(), "conditions": conditions,
            "initContainerStatuses": statuses("initContainers", {"terminated": {"exitCode": 0, "reason": "Completed"}}),
            "containerStatuses": [c for c in statuses("containers", state) if c["name"] == MAIN],
        }  # fmt: skip
        about = pod["metadata"]
        # Of this pod alone: one of the same name made since is another one.
        patch = {"metadata": {"uid": about["uid"]}, "status": status}
        await self._ask(self._core.patch_namespaced_pod_status, about["name"], about["namespace"], patch, _content_type=PATCH)

    async def _delete(self, about: dict[str, Any]) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}}
        await self._ask(self._core.delete_namespaced_pod, about["name"], about["namespace"], body=body)

    async def _ask(self, call: Callable[..., Any], *args: Any, **options: Any) -> int:
        """Makes a request until the API server answers; gives the answer's code."""
        while True:
            try:
                async with self._slots, await call(*args, _preload_content=False, **options) as response:
                    await response.read()
                    if response.status < 500:
                        return int(response.status)
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            await asyncio.sleep(0.2)


async def serve_logs(pki: Path) -> int:
    """Gives every container's log, always the same, to the API server; on the port that comes back."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=LOG)

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    return int(runner.addresses[0][1])


async def main() -> None:
    """Reads the command line, says `ready`, and runs until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kubeconfig")
    parser.add_argument("pki", type=Path, help="folder with apiserver.crt and apiserver.key")
    parser.add_argument("--nodes", type=int, default=4, help=f"how many, for {PODS_PER_NODE} pods each")
    parser.add_argument("--after", type=float, default=None, help="seconds after which pods end; until deleted by default")
    parser.add_argument("--prefix", default="fake", help="of their names, and a label that they have")
    args = parser.parse_args()
    configuration = client.Configuration()
    await config.load_kube_config(args.kubeconfig, client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        nodes = FakeNodes(api, [f"{args.prefix}-{n}" for n in range(args.nodes)], await serve_logs(args.pki), args.after)
        await nodes.register()
        print("ready", flush=True)  # noqa: T201
        await nodes.run()


if __name__ == "__main__":
    asyncio.run(main())
