"""Models behind both APIs, by their SDKs over real HTTP: the same is asked, told and paid for, whichever it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.synth.models.answers import Answers
from services.synth.models.budget import Budget
from services.synth.models.client import Models
from shared.config import EndpointConfig, ModelsConfig
from shared.errors import BudgetError, ConfigError, EngineError, MakerError
from tests.scripted_models import KEY, Act, Asked, ScriptedModels, said

pytestmark = [pytest.mark.real, pytest.mark.slow]  # the SDKs alone take seconds to load


class Colour(msgspec.Struct):
    """A colour."""

    name: str
    parts: list[int]


RED = {"name": "red", "parts": [255, 0, 0]}
GOOD = Colour("red", [255, 0, 0])


class House:
    """An endpoint, and what is configured for it."""

    def __init__(self, api: str, folder: Path) -> None:
        self.acts: list[Act] = []
        self.server = ScriptedModels(self._next)
        self.api, self.folder = api, folder

    def _next(self, _: Asked) -> Act:
        return self.acts.pop(0) if self.acts else said(RED)

    def models(self, key: str = KEY, usd: float = 0.0, calls: int = 0, **settings: Any) -> Models:
        """A client, as after a start of the process."""
        url = f"{self.server.url}/v1" if self.api == "openai" else self.server.url
        wanted = {"api": self.api, "base_url": url, "model": "m-1", "key_env": "THE_KEY", "max_tokens": 100, "most_tokens": 300}
        builder = msgspec.convert(wanted | settings, EndpointConfig)
        return Models(ModelsConfig(builder=builder), Answers(self.folder), Budget(usd, calls), "run-1", {"THE_KEY": key})


@pytest.fixture(params=["openai", "anthropic"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    made = House(request.param, tmp_path / "answers")
    await made.server.start()
    yield made
    await made.server.stop()


@pytest.mark.parametrize("form", ["schema", "tool", "prompt"])
async def test_an_answer_is_of_the_kind_that_was_asked_for_however_it_is_held_to_it(house: House, form: str) -> None:
    models = house.models(structured=form, temperature=0.5)
    reply = await models.ask("proposer", "which colour?", Colour)
    await models.close()
    assert (reply.value, reply.model, len(reply.calls)) == (GOOD, "m-1", 1)
    (asked,) = house.server.asked
    assert (asked.form, asked.max_tokens) == (form, 100)
    assert asked.body["temperature"] == 0.5
    assert ("JSON schema" in asked.prompt) == (form == "prompt")


async def test_what_was_answered_is_not_asked_again_by_who_comes_later_or_at_the_same_time(house: House) -> None:
    first = house.models()
    together = await asyncio.gather(*(first.ask("builder", "which colour?", Colour) for _ in range(5)))
    await first.close()
    second = house.models()
    later = await second.ask("builder", "which colour?", Colour)
    await second.close()
    assert {(r.value.name, r.calls) for r in [*together, later]} == {("red", later.calls)}
    assert len(house.server.asked) == 1
    assert second.budget.calls == 1


async def test_who_leaves_does_not_end_what_others_wait_for(house: House) -> None:
    house.acts = [Act(msgspec.json.encode(RED).decode(), late_s=0.3)]
    models = house.models()
    gone, stays = (asyncio.create_task(models.ask("builder", "which colour?", Colour)) for _ in range(2))
    await asyncio.sleep(0.1)
    gone.cancel()
    assert (await stays).value == GOOD
    await models.close()
    assert len(house.server.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_a_call_that_is_turned_down_for_now_is_made_again_when_the_endpoint_says(house: House, status: int) -> None:
    house.acts = [Act("later", status=status, headers={"retry-after": "0.4"}), said(RED)]
    models, begun = house.models(), time.monotonic()
    assert (await models.ask("builder", "which colour?", Colour)).value == GOOD
    await models.close()
    assert time.monotonic() - begun >= 0.4
    assert models.budget.calls == 1


async def test_a_connection_that_breaks_and_an_answer_that_is_late_are_tried_again(house: House) -> None:
    house.acts = [Act(drop=True), Act(late_s=5.0), said(RED)]
    models = house.models(timeout_s=0.5)
    assert (await models.ask("builder", "which colour?", Colour)).value == GOOD
    await models.close()


async def test_an_answer_that_is_cut_off_is_asked_for_with_more_tokens_and_at_last_told(house: House) -> None:
    house.acts = [Act('{"name": "re', end="cut"), said(RED)]
    models = house.models()
    reply = await models.ask("builder", "which colour?", Colour)
    assert (reply.value, [a.max_tokens for a in house.server.asked]) == (GOOD, [100, 200])
    house.acts = [Act("{", end="cut")] * 3
    with pytest.raises(MakerError, match=r"cut off at 300 tokens; raise synth\.models\.builder\.most_tokens"):
        await models.ask("builder", "which other?", Colour)
    await models.close()
    assert models.budget.calls == 5


async def test_a_malformed_answer_is_asked_for_once_more_with_what_is_wrong(house: House) -> None:
    house.acts = [Act('{"name": "red", "parts": "three"}', end="done"), said(RED)]
    models = house.models()
    reply = await models.ask("builder", "which colour?", Colour)
    assert (reply.value, len(reply.calls)) == (GOOD, 2)
    assert "Expected `array`, got `str` - at `$.parts`" in house.server.asked[-1].text
    assert [m["role"] for m in house.server.asked[-1].body["messages"]] == ["user", "assistant", "user"]
    house.acts = [Act("I think that red is nice.")] * 2
    with pytest.raises(MakerError, match="cannot be used, nor could the one before: it is no JSON"):
        await models.ask("builder", "which other?", Colour)
    await models.close()


async def test_a_fence_around_an_answer_is_no_fault(house: House) -> None:
    house.acts = [Act(f"```json\n{msgspec.json.encode(RED).decode()}\n```")]
    models = house.models(structured="prompt")
    assert (await models.ask("builder", "which colour?", Colour)).value == GOOD
    await models.close()


async def test_a_refusal_is_told_as_such_and_not_paid_for_again(house: House) -> None:
    house.acts = [Act("I will not do that.", end="refused")]
    for _ in range(2):
        models = house.models()
        with pytest.raises(MakerError, match=r"the builder refuses: I will not do that\."):
            await models.ask("builder", "which colour?", Colour)
        await models.close()
    assert len(house.server.asked) == 1


async def test_what_is_no_answer_at_all_is_to_be_tried_later_and_what_is_asked_wrongly_is_not(house: House) -> None:
    house.acts = [Act(raw=b'{"odd": true}'), Act("prompt is too long", status=400), Act("down", status=503)]
    models = house.models(retries=0)
    with pytest.raises(EngineError, match=r"no (chat completion|message)"):
        await models.ask("builder", "one", Colour)
    with pytest.raises(MakerError, match="prompt is too long"):
        await models.ask("builder", "two", Colour)
    with pytest.raises(EngineError, match="HTTP 503"):
        await models.ask("builder", "three", Colour)
    assert (models.budget.calls, models.budget.usd) == (0, 0.0)
    await models.close()


async def test_the_key_is_told_by_its_name_only_and_kept_nowhere(house: House, caplog: pytest.LogCaptureFixture) -> None:
    wrong = house.models(key="sk-wrong")
    with pytest.raises(EngineError, match="is THE_KEY right") as told:
        await wrong.ask("builder", "which colour?", Colour)
    assert "sk-wrong" not in str(told.value)
    right = house.models()
    await right.ask("builder", "which colour?", Colour)
    for models in (wrong, right):
        await models.close()
    kept = b"".join(file.read_bytes() for file in house.folder.rglob("*.json"))
    assert kept
    assert KEY.encode() not in kept
    assert KEY not in caplog.text
    with pytest.raises(ConfigError, match="set the environment variable THE_KEY"):
        await house.models(key="").ask("builder", "which other?", Colour)


async def test_no_call_is_made_that_could_cost_more_than_there_is_left(house: House) -> None:
    prices: dict[str, Any] = {
        "usd_per_mtok_in": 1000.0,
        "usd_per_mtok_out": 2000.0,
    }  # an answer: 0.1 + 0.1; at most 0.2 and the prompt
    models = house.models(usd=0.5, **prices)
    await models.ask("builder", "one", Colour)
    assert models.budget.usd == pytest.approx(0.2)
    await models.close()
    again = house.models(usd=0.5, **prices)
    with pytest.raises(BudgetError, match=r"\$0\.2000 of \$0\.50 are spent"):
        await again.ask("builder", "a longer prompt " * 20, Colour)
    await again.ask("builder", "one", Colour)  # what is there costs nothing
    await again.close()
    assert len(house.server.asked) == 1


async def test_no_more_calls_are_answered_than_may_be_however_many_ask_at_once(house: House) -> None:
    models = house.models(calls=3)
    came = await asyncio.gather(*(models.ask("builder", f"{n}", Colour) for n in range(8)), return_exceptions=True)
    await models.close()
    assert sum(isinstance(one, BudgetError) for one in came) == 5
    assert len(house.server.asked) == 3


async def test_no_more_calls_are_made_at_the_same_time_than_configured(house: House) -> None:
    busy: list[int] = []
    house.acts = [Act(msgspec.json.encode(RED).decode(), late_s=0.05)] * 8

    def watching(asked: Asked) -> Act:
        busy.append(len(house.server.asked) - len(house.server.answered))
        return house.acts.pop()

    house.server.script = watching
    models = house.models(concurrent=2)
    await asyncio.gather(*(models.ask("builder", f"{n}", Colour) for n in range(8)))
    await models.close()
    assert 1 <= max(busy) <= 2


async def test_a_role_without_a_model_has_the_builders_but_for_the_judge(house: House) -> None:
    models = house.models()
    assert (await models.ask("refiner", "which colour?", Colour)).model == "m-1"
    with pytest.raises(ConfigError, match="the judge has no model"):
        await models.ask("judge", "which colour?", Colour)
    await models.close()
