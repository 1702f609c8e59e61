from __future__ import annotations

import socket

import pytest

from services.orchestrator.gateway import Endpoint, Gateway
from services.orchestrator.state import Rollout, Sealed
from shared.config import ProxyConfig
from shared.errors import ConfigError, EngineError, FidelityError
from shared.events import RolloutStart
from shared.roles import RoleRule
from tests.unit.orchestrator.house import KEY, StandIn

ROLLOUT = Rollout(
    RolloutStart(run_id="run1", rollout_id="r1", group_id="g1", group_size=1, task_dir="/t", harness="react"), "t", 3
)


def gateway(port: int, key: str = KEY, patience_s: float = 10.0) -> Gateway:
    return Gateway(ProxyConfig(port=port, control_port=port), key, patience_s)


async def test_a_session_is_opened_and_sealed(proxy: StandIn) -> None:
    client = gateway(proxy.port)
    assert await client.open(ROLLOUT, [RoleRule(role="aux", tools="none")]) == Endpoint(
        f"http://127.0.0.1:{proxy.port}/run/r1-a1", "r1-a1"
    )
    assert proxy.opened["r1-a1"]["roles"] == [{"role": "aux", "tools": "none"}]
    proxy.calls["r1-a1"], proxy.errored["r1-a1"], proxy.lost["r1-a1"] = 3, [1], [2]
    assert await client.seal(ROLLOUT) == Sealed(3, (1,), (2,))
    await client.close()


async def test_answers_of_a_proxy_in_trouble_are_tried_again(proxy: StandIn) -> None:
    client = gateway(proxy.port)
    proxy.control_status = [503, 500]
    await client.open(ROLLOUT)
    proxy.control_status = [502]
    assert await client.seal(ROLLOUT) == Sealed(0)
    await client.close()


async def test_a_proxy_that_is_gone_is_an_engine_error_in_the_end() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = gateway(taken.getsockname()[1], patience_s=0.3)
        with pytest.raises(EngineError, match=r"did not answer for 0\.3 s"):
            await client.open(ROLLOUT)
        await client.close()


@pytest.mark.parametrize(
    ("status", "kind"), [(409, FidelityError), (404, FidelityError), (400, ConfigError), (401, ConfigError)]
)
async def test_a_refusal_is_not_tried_again(proxy: StandIn, status: int, kind: type[Exception]) -> None:
    client = gateway(proxy.port)
    proxy.control_status = [status, 200]
    with pytest.raises(kind):
        await client.open(ROLLOUT)
    assert proxy.control_status == [200]
    await client.close()


async def test_an_answer_that_is_not_the_proxys_is_told(proxy: StandIn) -> None:
    client = gateway(proxy.port)
    proxy.control_status = [200]
    with pytest.raises(ConfigError, match="does not answer like the proxy"):
        await client.open(ROLLOUT)
    await client.close()
