"""What an agent of this machine reaches, by what its task and its run say."""

from __future__ import annotations

import pytest

from shared.events import RolloutFailed, RolloutFinished
from tests.unit.orchestrator.house import House, MakeTask, commands, start

TASKS = {"silent": "", "closed": 'network_mode = "no-network"', "open": 'network_mode = "public"'}


@pytest.mark.parametrize(("name", "reaches"), [("silent", "no"), ("closed", "no"), ("open", "yes")])
async def test_an_agent_has_a_network_only_where_its_task_asks_for_it_and_its_run_allows_it(
    house: House, make_task: MakeTask, name: str, reaches: str
) -> None:
    port = house.proxy.port  # stands for anything that listens outside
    look = f'import socket; socket.create_connection(("127.0.0.1", {port}), 5)'
    house.proxy.script = commands(f"/usr/bin/python3 -c '{look}' && echo yes > out.txt || echo no > out.txt")
    toml = f'[task]\nname = "demo/{name}"\n[environment]\n{TASKS[name]}\n'
    test = f'if [ "$(cat out.txt)" = {reaches} ]; then echo 1; else echo 0; fi > "$LOGS_DIR/verifier/reward.txt"'
    async with house.orchestrator(network="task"):
        await house.publish(start(make_task(name, toml=toml, test=test)))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    assert outcome.reward == 1.0
    assert house.proxy.calls["r1-a1"] == 2, "its model is reached either way"


async def test_a_run_that_allows_none_refuses_a_task_that_asks_for_the_internet(house: House, make_task: MakeTask) -> None:
    toml = f'[task]\nname = "demo/open"\n[environment]\n{TASKS["open"]}\n'
    async with house.orchestrator():
        await house.publish(start(make_task(toml=toml)))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFailed), outcome
    assert "orchestrator.network=task" in outcome.detail
