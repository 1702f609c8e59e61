"""Asks models. Every answer is durable before anybody has it, and what was answered once is not asked again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from services.synth.models.answers import Answers
from services.synth.models.anthropic_api import AnthropicEndpoint
from services.synth.models.budget import Budget
from services.synth.models.calls import Answer, Call, Kept, Said
from services.synth.models.endpoint import Endpoint, key_of
from services.synth.models.openai_api import OpenAIEndpoint
from services.synth.models.schemas import schema_of
from services.synth.sources import note
from shared.config import EndpointConfig, ModelsConfig, Role
from shared.errors import ConfigError, MakerError

T = TypeVar("T")
log = logging.getLogger(__name__)

_APIS: Mapping[str, type[OpenAIEndpoint] | type[AnthropicEndpoint]] = {"openai": OpenAIEndpoint, "anthropic": AnthropicEndpoint}
_REPAIR = (
    "That cannot be used: {error}. Give the whole answer again, as one JSON object that fits the schema, and nothing else."
)


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What a model said.

    Attributes:
        value: as it was asked for.
        model: that said it.
        calls: keys of the answers that it took.
    """

    value: T
    model: str
    calls: tuple[str, ...]


class Models:
    """The models of a run, by role.

    Args:
        settings: of all roles.
        answers: that were given before.
        budget: for new ones; what the run spent before is counted.
        run_id: that pays.
        env: has the API keys; `os.environ` by default.
    """

    def __init__(
        self, settings: ModelsConfig, answers: Answers, budget: Budget, run_id: str, env: Mapping[str, str] | None = None
    ) -> None:
        self.budget = budget
        self._settings, self._answers, self._run_id, self._env = settings, answers, run_id, env
        self._desks: dict[EndpointConfig, _Desk] = {}
        self._asking: dict[str, asyncio.Task[Answer]] = {}
        budget.count(answers.paid(run_id))

    async def ask(self, role: Role, text: str, kind: type[T], check: Callable[[T], str] | None = None) -> Reply[T]:
        """Asks a model for a value. An answer that is cut off is asked for again with more tokens, one that cannot be used once
        more with what is wrong with it.

        Args:
            role: whose model.
            text: the prompt.
            kind: msgspec Struct of the answer.
            check: says what is wrong with a value of that kind; empty if nothing is.

        Raises:
            MakerError: it refuses, or gives nothing that can be used.
            BudgetError: there is too little left for the call.
            EngineError: the endpoint does not answer for now.
            ConfigError: the role has no model, or its key is not there.
        """
        settings = self._settings.of(role)
        if not settings.model:
            raise ConfigError(f"the {role} has no model: set synth.models.{role}.model, or that of the builder")
        calls: list[str] = []
        said = [Said(role="user", text=text)]
        answer = await self._whole(role, settings, said, kind, calls)
        try:
            value = _read(answer, kind, check)
        except _Useless as e:
            said += [Said(role="assistant", text=answer.text or "(nothing)"), Said(role="user", text=_REPAIR.format(error=e))]
            value = self._last(role, await self._whole(role, settings, said, kind, calls), kind, check)
        return Reply(value, settings.model, tuple(calls))

    async def close(self) -> None:
        """Ends what is asked at present, and closes connections."""
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        for desk in self._desks.values():
            await desk.endpoint.close()

    def _last(self, role: Role, answer: Answer, kind: type[T], check: Callable[[T], str] | None) -> T:
        try:
            return _read(answer, kind, check)
        except _Useless as e:
            raise MakerError(f"the {role}'s answer cannot be used, nor could the one before: {e}") from None

    async def _whole(self, role: Role, settings: EndpointConfig, said: list[Said], kind: type[T], calls: list[str]) -> Answer:
        """An answer that ended by itself."""
        name, schema = schema_of(kind)
        tokens = settings.max_tokens
        while True:
            call = Call(
                model=settings.model, api=settings.api, structured=settings.structured, messages=tuple(said), name=name,
                schema=schema, max_tokens=tokens, temperature=settings.temperature,
            )  # fmt: skip
            calls.append(call.key)
            note(call=call.key)
            answer = await self._answer(role, settings, call)
            if answer.end == "refused":
                raise MakerError(f"the {role} refuses: {answer.why or answer.text[:300]}")
            if answer.end == "done":
                return answer
            if tokens >= settings.most_tokens:
                raise MakerError(f"the {role}'s answer is cut off at {tokens} tokens; raise synth.models.{role}.most_tokens")
            tokens = min(2 * tokens, settings.most_tokens)

    async def _answer(self, role: Role, settings: EndpointConfig, call: Call) -> Answer:
        """The answer to a call, of earlier or now; who asks the same at the same time gets the same."""
        key = call.key
        if key not in self._asking:
            task = asyncio.create_task(self._find_or_pay(role, settings, call))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(self._asking[key])  # who leaves does not end it for the others

    async def _find_or_pay(self, role: Role, settings: EndpointConfig, call: Call) -> Answer:
        kept = await asyncio.to_thread(self._answers.read, call.key)
        return kept.answer if kept else await self._pay(role, settings, call)

    async def _pay(self, role: Role, settings: EndpointConfig, call: Call) -> Answer:
        desk = self._desk(settings)
        most = _price(settings, call.tokens, call.max_tokens)
        async with desk.free, self.budget.hold(most) as bill:
            at = time.time()
            answer = await desk.endpoint.ask(call)
            usd = _price(settings, answer.tokens_in, answer.tokens_out)
            bill.pay(usd)
            kept = Kept(
                call=call, answer=answer, role=role, run_id=self._run_id, usd=usd, at=at, seconds=round(time.time() - at, 3)
            )
            await asyncio.to_thread(self._answers.write, call.key, kept)
        log.info("the %s answered: %s, %d tokens, $%.4f", role, answer.end, answer.tokens_out, usd)
        return answer

    def _desk(self, settings: EndpointConfig) -> _Desk:
        if settings not in self._desks:
            kind = OpenAIEndpoint if settings.api == "openai" else AnthropicEndpoint
            endpoint = kind(settings, key_of(settings, self._env))
            self._desks[settings] = _Desk(endpoint, asyncio.Semaphore(settings.concurrent))
        return self._desks[settings]


@dataclass(frozen=True, slots=True)
class _Desk:
    """An endpoint, and who may ask it at the same time."""

    endpoint: Endpoint
    free: asyncio.Semaphore


class _Useless(Exception):
    """An answer that cannot be used, and why."""


def _read(answer: Answer, kind: type[T], check: Callable[[T], str] | None) -> T:
    """The value in an answer."""
    try:
        value = msgspec.json.decode(answer.text, type=kind)
    except msgspec.ValidationError as e:
        raise _Useless(str(e)) from None
    except msgspec.DecodeError as e:
        raise _Useless(f"it is no JSON: {e}") from None
    if check and (problem := check(value)):
        raise _Useless(problem)
    return value


def _price(settings: EndpointConfig, tokens_in: int, tokens_out: int) -> float:
    return (tokens_in * settings.usd_per_mtok_in + tokens_out * settings.usd_per_mtok_out) / 1e6
