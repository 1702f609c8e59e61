"""What the API server's answers mean."""

from __future__ import annotations

import msgspec
import pytest

from services.orchestrator.backends.kubernetes.api import Expired, Missing, Other, Taken, configure, refusal
from services.orchestrator.backends.kubernetes.backend import target
from shared.config import KubernetesConfig
from shared.errors import QuotaError, SandboxAway, SandboxError


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind"),
    [
        (409, "AlreadyExists", "", Taken),
        (409, "Conflict", "the UID in the precondition", Other),
        (404, "NotFound", "", Missing),
        (410, "Expired", "too old resource version", Expired),
        (403, "Forbidden", "pods x is forbidden: exceeded quota: q, requested: pods=1", QuotaError),
        (403, "Forbidden", "User x cannot create", SandboxError),
        (403, "Forbidden", "error looking up service account ns/default: not found", SandboxAway),
        (401, "Unauthorized", "", SandboxError),
        (422, "Invalid", "spec.containers[0].image: Required value", SandboxError),
        (429, "TooManyRequests", "", SandboxAway),
        (500, "InternalError", "etcdserver: request timed out", SandboxAway),
        (503, "ServiceUnavailable", "", SandboxAway),
    ],
)
def test_every_refusal_has_its_type_and_the_servers_words(
    code: int, reason: str, message: str, kind: type[SandboxError]
) -> None:
    error = refusal(code, msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": message}))
    assert type(error) is kind
    assert message in str(error)


def test_an_answer_that_is_no_status_is_quoted() -> None:
    assert "bad gateway" in str(refusal(502, b"<html>bad gateway</html>"))
    assert type(refusal(502, b"")) is SandboxAway


async def test_without_a_cluster_it_says_what_to_set(tmp_path: object) -> None:
    with pytest.raises(SandboxError, match=r"orchestrator\.kubernetes\.kubeconfig"):
        await configure(KubernetesConfig(kubeconfig=f"{tmp_path}/none"))


async def test_the_proxy_is_named_by_its_address() -> None:
    assert await target("http://10.1.2.3:8080") == "tcp:10.1.2.3:8080"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://0.0.0.0:1", "http://localhost:80", "10.1.2.3", "http://10.1.2.3"]
)
async def test_a_proxy_that_pods_cannot_reach_is_refused(url: str) -> None:
    with pytest.raises(SandboxError, match="proxy_url"):
        await target(url)
