"""Chat rows for supervised training: one row per conversation, from its first message to its last reply. Pure.

``datasets`` loads the lines as they are and TRL's SFT trainer takes them. `tools` is JSON text, which TRL decodes: as nested
columns the schemas of different tools would not fit one table.
"""

from __future__ import annotations

from typing import Any

import msgspec

from services.dev.exports.selection import Chosen
from services.dev.show import content_text
from services.dev.transcript import Conversation, Json, conversations


class ChatRow(msgspec.Struct, kw_only=True):
    """One conversation.

    Attributes:
        messages: OpenAI chat messages whose content is text (media stand in brackets); arguments of tool calls are JSON text.
        tools: JSON text of the tools in OpenAI's format; None without any.
        reward: of the rollout.
        role: `main`, `sub` or `summary`: whose conversation it is.
    """

    messages: list[Json]
    tools: str | None
    task: str
    harness: str
    purpose: str
    reward: float
    group_id: str
    rollout_id: str
    attempt: int
    role: str
    thread: str


def chat_rows(chosen: Chosen) -> list[ChatRow]:
    """The conversations of a rollout, in the order of their last replies."""
    attempt, rollout = chosen.attempt, chosen.rollout
    return [
        ChatRow(
            messages=[_message(m) for m in c.messages()],
            tools=_tools(c),
            task=rollout.task,
            harness=rollout.harness,
            purpose=rollout.purpose,
            reward=chosen.reward,
            group_id=rollout.group_id,
            rollout_id=rollout.rollout_id,
            attempt=attempt.number,
            role=c.last.role,
            thread=c.last.thread,
        )
        for c in conversations(attempt.calls, attempt.sealed)
    ]


def _tools(conversation: Conversation) -> str | None:
    return msgspec.json.encode(conversation.tools).decode() if conversation.tools else None


def _message(message: Json) -> Json:
    made: dict[str, Any] = {"role": message.get("role", "user"), "content": content_text(message.get("content"))}
    if message.get("reasoning"):
        made["reasoning_content"] = message["reasoning"]
    if message.get("tool_calls"):
        made["tool_calls"] = message["tool_calls"]
    if message.get("tool_call_id"):
        made["tool_call_id"] = message["tool_call_id"]
    return made
