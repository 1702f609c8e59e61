"""Decides what the engine is sent for a turn: its messages, or token ids that go on from an earlier call's very own."""

from __future__ import annotations

import logging
from typing import Literal

import msgspec
import orjson

from services.proxy import paths
from services.proxy.bridge import Declined, Frame, delta, frame_messages, stand_in
from services.proxy.dialects.base import Turn
from services.proxy.errors import EngineRefused
from services.proxy.known import Known, Session
from services.proxy.probes import Probes
from services.proxy.stops import Stops
from services.proxy.upstream import Engine

log = logging.getLogger(__name__)

_TEMPLATE = ("chat_template_kwargs", "chat_template")


class Prompt(msgspec.Struct, frozen=True):
    """What is sent, and where it comes from.

    Attributes:
        start: path before the first message.
        nodes: path after each message.
        parent: call that the messages go on from, None where there is none.
        kept: index of the first message that is new.
        spliced: the ids to send, as a JSON array; empty to send the messages.
        length: tokens of the prompt, as far as they are known.
        fork: why the messages do not simply go on from the latest call that they share a beginning with; empty where they do.
        declined: why ids could not be sent although there is a parent; empty where they were, or need not be.
    """

    start: bytes
    nodes: list[bytes]
    parent: Known | None
    kept: int
    spliced: bytes = b""
    length: int = 0
    fork: str = ""
    declined: str = ""

    @property
    def end(self) -> bytes:
        """The path after the last message."""
        return self.nodes[-1]


class Prompts:
    """Prepares prompts.

    Args:
        mode: `record`, `splice` or `teacher`.
        thinking: `keep` or `fork`, see `proxy.thinking`.
        stops: tokens that end a turn.
    """

    def __init__(self, mode: Literal["record", "splice", "teacher"], thinking: Literal["keep", "fork"], stops: Stops) -> None:
        self._mode = mode
        self._thinking = thinking
        self._stops = stops
        self._frames: dict[bytes, Frame] = {}
        self._probes = Probes()

    async def prepare(self, turn: Turn, session: Session, engine: Engine) -> Prompt:
        """The prompt of a turn, rendered by an engine where it has to be. As long as that fails nothing is noted.

        Raises:
            Refused: the engine cannot be reached.
        """
        start = paths.start(turn.fields)
        nodes = session.walk(start, turn.messages)
        parent, kept = _find(nodes, session)
        spliced, length, declined = b"", parent.length if parent else 0, ""
        fork = _fork(start, nodes, kept, session)
        if self._mode == "splice" and parent is not None:
            try:
                added = await self._added(turn, parent, engine, turn.messages[kept:])
                ids = b"[%b,%b]" % (session.full_json(parent.seq), orjson.dumps(added)[1:-1])
                if (thought := session.thought(parent.seq)) is not None:
                    await self._probes.check_thinking(engine, ids, thought)
                spliced = ids
                length += len(added)
            except Declined as e:
                declined = str(e)
        session.nodes.update(nodes, (start,))
        return Prompt(start, nodes, parent, kept, spliced, length, fork, declined)

    async def _added(self, turn: Turn, parent: Known, engine: Engine, new: list[msgspec.Raw]) -> list[int]:
        """The ids that follow the parent's own."""
        if turn.media:
            raise Declined("multimodal")
        if self._thinking == "fork" and parent.thought is not None and any(b'"user"' in bytes(m) for m in new):
            raise Declined("thinking_policy")
        fields = {name: turn.fields[name] for name in _TEMPLATE if name in turn.fields}
        try:
            frame = await self._frame(engine, fields)
            rendered = await engine.tokenize(stand_in(parent, new), fields)
        except EngineRefused as e:
            log.info("the engine does not render a delta: %s", e)
            raise Declined("bridge_declined") from None
        await self._probes.check_ids(engine, frame.open)
        return delta(frame, rendered, parent.stop, self._stops.known)

    async def _frame(self, engine: Engine, fields: dict[str, msgspec.Raw]) -> Frame:
        key = msgspec.json.encode(fields)
        if key not in self._frames:
            closed = await engine.tokenize(frame_messages(), fields, generation_prompt=False)
            self._frames[key] = Frame(closed, await engine.tokenize(frame_messages(), fields))
        return self._frames[key]


def _find(nodes: list[bytes], session: Session) -> tuple[Known | None, int]:
    """The call whose conversation, reply included, is the longest beginning of the messages, and where the new ones begin.

    None when nothing is new after it: the harness then wants the reply itself continued."""
    for at in range(len(nodes) - 2, -1, -1):
        if (seq := session.paths.get(nodes[at])) is not None:
            return session.calls[seq], at + 1
    return None, 0


def _fork(start: bytes, nodes: list[bytes], kept: int, session: Session) -> str:
    """Why messages do not simply go on from the latest reply that they share with an earlier call."""
    if not session.calls:
        return ""
    if start not in session.nodes:
        return "tools_changed" if not kept else ""
    known = next((at for at in range(len(nodes) - 1, -1, -1) if nodes[at] in session.nodes), -1)
    if known + 1 <= kept:  # nothing is known beyond the reply that they go on from
        return "" if kept else "new_context"
    return "" if known == len(nodes) - 1 else "history_rewritten"
