"""Requests of each dialect that use much of what it has."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

PNG_URL = "data:image/png;base64,aGk="
_SCHEMA: Json = {"type": "object", "properties": {"x": {"type": "string"}}}

_CHAT: Json = {
    "model": "m", "stream": False, "n": 1, "max_tokens": 50, "temperature": 0.5, "top_p": 0.9, "stop": ["x"], "seed": 1,
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": _SCHEMA, "strict": False}}],
    "tool_choice": "auto", "response_format": {"type": "text"}, "stream_options": None, "chat_template_kwargs": {"k": 1},
    "messages": [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": PNG_URL}}]},
        {
            "role": "assistant", "content": None, "reasoning": "hm",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
        {"role": "user", "content": "hi"},
    ],
}  # fmt: skip

_RESPONSES: Json = {
    "model": "m", "stream": False, "instructions": "be brief", "max_output_tokens": 50, "temperature": 0.5, "top_p": 0.9,
    "store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low"}, "text": {"verbosity": "low"},
    "tools": [
        {"type": "function", "name": "f", "description": "d", "parameters": _SCHEMA, "strict": False},
        {"type": "custom", "name": "patch", "description": "d", "format": {"type": "text"}},
    ],
    "tool_choice": "auto", "parallel_tool_calls": True,
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "x"},
        {"role": "user", "content": "hi"},
    ],
}  # fmt: skip

_ANTHROPIC: Json = {
    "model": "m", "stream": False, "max_tokens": 50, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop_sequences": ["x"],
    "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}], "metadata": {"user_id": "u"},
    "tools": [{"name": "f", "description": "d", "input_schema": _SCHEMA}], "tool_choice": {"type": "auto"},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hi"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x"}]},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            ],
        },
    ],
}  # fmt: skip

_GEMINI: Json = {
    "systemInstruction": {"parts": [{"text": "be brief"}]},
    "tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": _SCHEMA}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    "generationConfig": {
        "maxOutputTokens": 50, "temperature": 0.5, "topP": 0.9, "topK": 5, "stopSequences": ["x"], "candidateCount": 1,
        "thinkingConfig": {"includeThoughts": True},
    },
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"functionCall": {"name": "f", "args": {"x": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}]},
        {"role": "user", "parts": [{"text": "hi"}]},
    ],
}  # fmt: skip

PAYLOADS: dict[str, list[Json]] = {
    "openai.chat": [_CHAT], "openai.responses": [_RESPONSES], "anthropic.messages": [_ANTHROPIC], "gemini": [_GEMINI],
}  # fmt: skip
"""Valid requests, none of which asks for a stream."""
