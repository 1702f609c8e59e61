"""What a plain loop over kubernetes-asyncio does with pods: make, watch, delete. It knows no failures and remembers nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from kubernetes_asyncio import client, watch


async def bare(api: client.ApiClient, namespace: str, pods: list[dict[str, Any]], concurrency: int) -> None:
    """Runs all the pods, so many at once, each until it ended and was deleted."""
    core = client.CoreV1Api(api)
    ended = {pod["metadata"]["name"]: asyncio.Event() for pod in pods}
    begun = asyncio.Event()

    async def listen() -> None:
        found = await core.list_namespaced_pod(namespace)
        begun.set()
        options = {"resource_version": found.metadata.resource_version, "timeout_seconds": 3600}
        async for event in watch.Watch(return_type="object").stream(core.list_namespaced_pod, namespace, **options):
            pod = event["object"]
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                ended[pod["metadata"]["name"]].set()

    slots = asyncio.Semaphore(concurrency)

    async def run(pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        async with slots:
            await core.create_namespaced_pod(namespace, pod)
            await ended[name].wait()
            await core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)

    listening = asyncio.create_task(listen())
    await begun.wait()
    try:
        await asyncio.gather(*(run(pod) for pod in pods))
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
