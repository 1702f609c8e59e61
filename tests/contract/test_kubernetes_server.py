"""The backend for Kubernetes against a real API server, on nodes that only say that they run pods."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession, TCPConnector, web
from kubernetes_asyncio import client

from services.orchestrator.backends.kubernetes import podstate
from services.orchestrator.backends.kubernetes.api import Api, Expired
from services.orchestrator.backends.port import Backend, Box, Resources
from shared.errors import Evicted, QuotaError, SandboxAway, SandboxError, Unschedulable
from tests.kube.boxes import DONE, box
from tests.kube.cluster import REPO, Cluster
from tests.kube.fixtures import MakeBackend
from tests.kube.watched import WITHIN_S, ends, heard, running
from tests.waiting import eventually

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("fake_nodes"),
]


def lasting(name: str = "s1", **wishes: str) -> Box:
    """A sandbox that runs until it is ended, unless its wishes to the fake node say otherwise."""
    asked = box(name)
    return replace(asked, labels={**asked.labels, **wishes})


async def test_a_sandbox_runs_and_leaves_its_status(make_backend: MakeBackend) -> None:
    backend = make_backend()
    await backend.open()
    async with heard(backend) as told:
        await backend.start(lasting("s1", **{"fake-after": "0.3"}))
        news = await told(lambda all_: "s1" in ends(all_))
    assert [seen.stage for seen in news if seen.stage in ("run", "ended")] == ["run", "ended"]
    status = ends(news)["s1"].status
    assert status is not None
    assert status["phase"] == "done"
    assert [seen.stage for seen in await backend.present()] == ["ended"]
    assert b"some words" in await backend.logs("s1")
    await backend.remove("s1")
    assert await backend.present() == []
    await backend.remove("s1")


async def test_what_was_there_before_is_told_first_and_to_a_successor_too(make_backend: MakeBackend) -> None:
    first, second, stranger = make_backend(), make_backend(), make_backend("run2")
    for each in (first, second, stranger):
        await each.open()
    for name in ("s1", "s2"):
        await first.start(lasting(name))
    async with heard(second) as told:
        await told(lambda all_: running(all_) == {"s1", "s2"})
        await second.end("s1", 1.0)
        news = await told(lambda all_: "s1" in ends(all_))
    status = ends(news)["s1"].status
    assert status is not None
    assert status["phase"] == "cancelled"
    assert sorted((seen.name, seen.stage) for seen in await second.present()) == [("s1", "ended"), ("s2", "run")]
    assert await stranger.present() == []


async def test_what_nobody_came_back_for_is_removed_by_whoever_starts_next_and_nothing_else_is(
    make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten, lasts = make_backend("run1"), make_backend("run2")
    await forgotten.open()
    await lasts.open()
    await forgotten.start(replace(lasting("s1"), deadline_s=10.0))
    await lasts.start(replace(lasting("s2"), deadline_s=10_000.0))
    monkeypatch.setattr(podstate, "FORGOTTEN_S", -1000.0)
    stranger = make_backend("run3")
    await stranger.open()
    await eventually(lambda: gone(forgotten), WITHIN_S)
    assert [seen.name for seen in await lasts.present()] == ["s2"]


async def gone(backend: Backend) -> bool:
    """Whether it has no sandbox."""
    return await backend.present() == []


async def test_one_that_waits_for_a_node_ends_when_asked_to(make_backend: MakeBackend) -> None:
    backend = make_backend()
    await backend.open()
    async with heard(backend) as told:
        await backend.start(box("s1", resources=Resources(cpus=100_000.0)))
        await told(lambda all_: bool(all_))
        await backend.end("s1", 1.0)
        assert ends(await told(lambda all_: "s1" in ends(all_)))["s1"].error


async def test_one_that_somebody_else_deletes_is_told_as_lost(
    make_backend: MakeBackend, admin: client.CoreV1Api, namespace: str
) -> None:
    backend = make_backend()
    await backend.open()
    async with heard(backend) as told:
        await backend.start(lasting())
        await told(lambda all_: "s1" in running(all_))
        await admin.delete_collection_namespaced_pod(namespace)
        news = await told(lambda all_: "s1" in ends(all_))
    assert isinstance(ends(news)["s1"].error, Evicted)


async def test_one_on_a_node_that_does_not_answer_is_told_as_lost(
    cluster: Cluster, make_backend: MakeBackend, admin: client.CoreV1Api, namespace: str
) -> None:
    backend = make_backend(node_selector=["dying=yes"])
    await backend.open()
    with cluster.fake_nodes("--nodes", "1", "--prefix", "dying"):
        async with heard(backend) as told:
            await backend.start(lasting())
            await told(lambda all_: "s1" in running(all_))
    async with heard(backend) as told:
        await admin.delete_namespaced_pod(
            "openforge-run1.s1", namespace, grace_period_seconds=1
        )  # as the cluster does in the end
        news = await told(lambda all_: "s1" in ends(all_))
    assert isinstance(ends(news)["s1"].error, Evicted)
    assert "dying-0 does not answer" in str(ends(news)["s1"].error)
    await backend.remove("s1")
    assert await backend.present() == []


async def test_a_sandbox_that_is_asked_for_twice_is_one(
    make_backend: MakeBackend, admin: client.CoreV1Api, namespace: str
) -> None:
    backend, successor = make_backend(), make_backend()
    await backend.open()
    await successor.open()
    await asyncio.gather(*(each.start(lasting()) for each in (backend, successor, backend)))
    assert len((await admin.list_namespaced_pod(namespace)).items) == 1


async def test_a_pod_of_somebody_elses_with_that_name_is_left_alone(
    make_backend: MakeBackend, admin: client.CoreV1Api, namespace: str
) -> None:
    backend = make_backend()
    await backend.open()
    theirs = {"metadata": {"name": "openforge-run1.s1"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    await admin.create_namespaced_pod(namespace, theirs)
    with pytest.raises(SandboxError, match="not of this run"):
        await backend.start(lasting("s1"))
    await backend.end("s1", 1.0)
    await backend.remove("s1")
    assert [pod.metadata.name for pod in (await admin.list_namespaced_pod(namespace)).items] == ["openforge-run1.s1"]


async def test_a_creation_that_happened_without_an_answer_is_adopted(
    make_backend: MakeBackend, fake_nodes: Cluster, admin: client.CoreV1Api, namespace: str
) -> None:
    async with deaf_once(fake_nodes) as (kubeconfig, swallowed):
        backend = make_backend(kubeconfig=kubeconfig)
        await backend.open()
        await backend.start(lasting())
    assert swallowed == ["POST 201"]
    assert len((await admin.list_namespaced_pod(namespace)).items) == 1


async def test_a_watch_goes_on_after_the_api_server_died(make_backend: MakeBackend, fake_nodes: Cluster) -> None:
    backend = make_backend()
    await backend.open()
    names = {f"s{n}" for n in range(6)}
    async with heard(backend) as told:
        for name in sorted(names)[:3]:
            await backend.start(lasting(name, **{"fake-after": "4"}))
        await told(lambda all_: len(running(all_)) == 3)
        fake_nodes.kill("apiserver")
        with contextlib.suppress(SandboxAway):
            await backend.start(lasting("s3", **{"fake-after": "0"}))
        await asyncio.to_thread(fake_nodes.up)
        for name in sorted(names)[3:]:
            await backend.start(lasting(name, **{"fake-after": "0.5"}))
        news = await told(lambda all_: set(ends(all_)) == names)
    assert all(seen.status for seen in ends(news).values())
    assert sum(seen.stage == "ended" for seen in news) == len(names)


async def test_a_watch_from_too_long_ago_lists_anew(
    make_backend: MakeBackend, fake_nodes: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = make_backend()
    fake_nodes.kill("apiserver")  # its successor knows nothing of what was before
    await asyncio.to_thread(fake_nodes.up)
    await backend.open()
    asked: list[str] = []
    really = Api.events

    def old_once(self: Api, selector: str, version: str) -> Any:
        asked.append(version)
        return really(self, selector, "1" if len(asked) == 1 else version)

    monkeypatch.setattr(Api, "events", old_once)
    with pytest.raises(Expired):
        async for _ in really(backend._api, "", "1"):
            pass
    await backend.start(lasting(**{"fake-after": "1"}))
    async with heard(backend) as told:
        news = await told(lambda all_: "s1" in ends(all_))
    assert ends(news)["s1"].status
    assert len(asked) >= 2


async def test_a_quota_that_is_used_up_has_its_type(make_backend: MakeBackend, admin: client.CoreV1Api, namespace: str) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    await admin.create_namespaced_resource_quota(namespace, quota)

    async def counted() -> bool:
        return bool((await admin.read_namespaced_resource_quota("few", namespace)).status.hard)

    await eventually(counted, WITHIN_S)
    backend = make_backend()
    await backend.open()
    await backend.start(lasting("s1"))
    with pytest.raises(QuotaError, match="pods=1"):
        await backend.start(lasting("s2"))


async def test_a_sandbox_that_no_node_can_have_says_so(make_backend: MakeBackend) -> None:
    backend = make_backend(unschedulable_s=1.0)
    await backend.open()
    async with heard(backend) as told:
        await backend.start(box("s1", resources=Resources(cpus=100_000.0)))
        news = await told(lambda all_: "s1" in ends(all_))
    error = ends(news)["s1"].error
    assert isinstance(error, Unschedulable)
    assert "Insufficient cpu" in str(error)
    await backend.remove("s1")
    assert await backend.present() == []


async def test_the_documented_role_is_enough_and_no_role_is_refused_by_name(
    make_backend: MakeBackend, admin: client.CoreV1Api, namespace: str
) -> None:
    nobody = make_backend(context="orchestrator")
    with pytest.raises(SandboxError, match="create pods"):
        await nobody.open()
    documents = yaml.safe_load_all((REPO / "k8s/sandboxes/rights.yaml").read_text())
    role = next(d for d in documents if d["kind"] == "Role")
    rights = client.RbacAuthorizationV1Api(admin.api_client)
    del role["metadata"]["namespace"]
    await rights.create_namespaced_role(namespace, role)
    await rights.create_namespaced_role_binding(namespace, {
        "metadata": {"name": "orchestrator"}, "roleRef": {"apiGroup": "", "kind": "Role", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "User", "name": "orchestrator"}],
    })  # fmt: skip
    backend = make_backend(context="orchestrator")

    async def allowed() -> bool:
        with contextlib.suppress(SandboxError):
            await backend.open()
            return True
        return False

    await eventually(allowed, WITHIN_S)
    async with heard(backend) as told:
        await backend.start(lasting(**{"fake-after": "0.3"}))
        assert ends(await told(lambda all_: "s1" in ends(all_)))["s1"].status
    await backend.remove("s1")


async def test_every_way_to_end_badly_is_told_with_its_type(make_backend: MakeBackend) -> None:
    backend = make_backend()
    await backend.open()
    async with heard(backend) as told:
        await backend.start(lasting("killed", **{"fake-after": "0", "fake-exit": "137", "fake-message": DONE}))
        await backend.start(lasting("silent", **{"fake-after": "0", "fake-message": ""}))
        news = await told(lambda all_: len(ends(all_)) == 2)
    assert "137" in str(ends(news)["killed"].error)
    assert "no status" in str(ends(news)["silent"].error)
    assert not any(seen.status for seen in ends(news).values())


@asynccontextmanager
async def deaf_once(cluster: Cluster) -> AsyncIterator[tuple[str, list[str]]]:
    """A network in front of the API server that loses the answer to the first creation. Gives a kubeconfig that leads there."""
    about = yaml.safe_load(cluster.kubeconfig.read_text())
    server = about["clusters"][0]["cluster"]["server"]
    swallowed: list[str] = []

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        url = f"{server}{request.path_qs}"
        async with session.request(request.method, url, data=await request.read(), headers=headers) as answer:
            body = await answer.read()
        if request.method == "POST" and request.path.endswith("/pods") and not swallowed:
            swallowed.append(f"{request.method} {answer.status}")
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=answer.status, body=body, content_type=answer.content_type)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    about["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}
    file = cluster.folder / "deaf.kubeconfig"
    file.write_text(yaml.safe_dump(about))
    async with ClientSession(connector=TCPConnector(ssl=False)) as session:
        yield str(file), swallowed
    await runner.cleanup()
