"""A deployment's state on a terminal."""

from __future__ import annotations

import time

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from services.dev.lines import plain
from services.dev.status.model import Engine, Service, Status

_DEAD = "FORGE-DEAD"


def render(status: Status) -> Group:
    """All of it."""
    parts: list[RenderableType] = [Text(f"run {status.run_id or '-'}", style="bold"), _services(status), _engines(status)]
    parts += [_table("waits for", {f"{lag.consumer} ({lag.stream})": lag.messages for lag in status.lags if lag.messages})]
    parts += [_table("queue", status.queues), _table("failed attempts", status.failing)]
    parts += [
        Text(plain(f"  {_clock(f.at)} {f.rollout_id} attempt {f.attempt}: {f.reason} in {f.stage}: {f.detail}"), style="dim")
        for f in status.failures
    ]
    if dead := status.streams.get(_DEAD, (0, 0))[0]:
        parts.append(Text(f"{dead} messages could not be handled: openforge deadletters list", style="yellow"))
    parts += [Text(plain(f"broken: {problem}"), style="bold red") for problem in status.problems]
    if not status.problems:
        parts.append(Text("all is well", style="bold green"))
    return Group(*(part for part in parts if part is not None))


def _services(status: Status) -> Table:
    table = _columns("service", "state", "version", "process", "up", "at")
    for name, why in (("bus", status.bus), ("store", status.store)):
        table.add_row(name, _state(why), "", "", "", "")
    for service in status.services:
        table.add_row(service.name, _state(service.wrong), *_about(service, status.at))
    return table


def _about(service: Service, now: float) -> tuple[str, str, str, str]:
    word = service.word
    up = f"{(now - word.began) / 60:.0f} min" if word.began else "-"
    return word.version, f"{word.host}:{word.pid}", up, word.url


def _engines(status: Status) -> Table:
    table = _columns("engine", "state", "weights", "calls")
    for engine in status.engines:
        version = f"v{engine.version}" if engine.version >= 0 else "-"
        table.add_row(engine.address, _engine_state(engine), version, str(engine.calls))
    return table


def _engine_state(engine: Engine) -> Text:
    if engine.wrong:
        return _state(engine.wrong)
    return Text("takes calls", style="green") if engine.open else Text("takes no calls now", style="yellow")


def _table(title: str, numbers: dict[str, int]) -> Table:
    table = _columns(title, "")
    for name, number in numbers.items():
        table.add_row(name, str(number))
    if not numbers:
        table.add_row("-", "")
    return table


def _state(wrong: str) -> Text:
    return Text(plain(wrong), style="red") if wrong else Text("ready", style="green")


def _columns(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
