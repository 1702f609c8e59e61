"""A history made up for tests of what reads archives: a main agent with a tool, a subagent, a rewritten history, a title."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from services.collector.history import History, fold
from services.collector.regroup import close, settle
from shared.config import CollectorConfig
from shared.events import Media, Message, RolloutFinished, TrajectoryAssembled
from tests.unit.collector.rollouts import GROUP, RUN, Session, ended
from tests.unit.collector.worlds import scheduled, story

CONFIG = CollectorConfig()
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
IMAGE = "ab12"
SECRET = "sk-abcdefghijklmnopqrstuvwx"


def raws(*messages: dict[str, Any]) -> list[msgspec.Raw]:
    return [msgspec.Raw(json.dumps(m).encode()) for m in messages]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def bash(call_id: str, command: str) -> list[dict[str, Any]]:
    return [{"id": call_id, "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}]


def rich_session(rollout: str = "r0") -> Session:
    """Five calls: the main agent calls a tool (1) and ends (2), a subagent answers (3), a title is made up (4), and the main
    agent starts anew from its first request (5)."""
    made = Session(rollout)
    common: dict[str, Any] = {"tools_digest": "0a"}
    made.call(
        [1, 2], [3, 4], messages=raws({"role": "system", "content": "Be brief."}, user(f"Read /home/ann/x, key {SECRET}")),
        tools=msgspec.Raw(json.dumps(TOOLS).encode()), reply=said("", reasoning="hm", tool_calls=bash("c1", "cat x")), **common,
    )  # fmt: skip
    image = {"type": "image_url", "image_url": {"url": f"sha256:{IMAGE}"}}
    result = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "seed"}, image]}
    more: dict[str, Any] = {"media": [Media(sha256=IMAGE)], **common}
    made.call([1, 2, 3, 4, 5], [6], messages=raws(result), messages_from=1, reply=said("done"), **more)
    made.call([8], [9], messages=raws(user("Look.")), role="sub", thread="task-1", reply=said("seen"))
    made.call([7, 7], [7], messages=raws(user("A title?")), role="aux", reply=said("Reading"))
    made.call(
        [1, 2, 3, 4, 11], [12, 13], messages=raws({**result, "content": "again"}, user("Anew.")), messages_from=1,
        fork="rewritten", reply=said("again done"), **common,
    )  # fmt: skip
    made.records = [msgspec.structs.replace(r, at=100.0 + r.seq) for r in made.records]
    return made


def messages() -> list[Message]:
    """A group of two: one of the rich session with reward 1, and a plain one with 0; both settled, the group completed."""
    made = rich_session()
    first: list[Message] = [scheduled("r0", group_size=2), *made.records, made.sealed(),
                            RolloutFinished(**ended("r0", group_size=2), reward=1.0)]  # fmt: skip
    told = [*first, *story("r1", 0.0, group_size=2)]
    history = fold(told)
    closed = close(history.groups[GROUP], CONFIG, float("inf"))
    assert closed is not None
    return [*told, *(_told(history, name) for name in ("r0", "r1")), closed]


def _told(history: History, rollout: str) -> TrajectoryAssembled:
    settled = settle(history.rollouts[rollout].attempts[1], CONFIG)
    assert settled is not None
    made = settled.trajectory
    assert made is not None
    return TrajectoryAssembled(
        run_id=RUN, rollout_id=rollout, group_id=GROUP, reward=made.reward, calls=made.calls, rows=len(made.rows),
        tokens=made.tokens, untrained=settled.untrained,
    )  # fmt: skip
