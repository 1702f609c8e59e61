"""Tools of a Responses request as chat functions, and back: which tool of the harness a function that the model calls is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from services.proxy.dialects.responses_custom import PARAMETERS, Format, described
from services.proxy.errors import bad_request

_NULL = msgspec.Raw(b"null")

HOSTED = frozenset(
    {
        "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "file_search",
        "code_interpreter", "image_generation", "mcp", "tool_search",
    }
)  # fmt: skip
"""Tools that the API's own servers run. They are left out: the model is not told of them, so it never calls one."""


class Tool(msgspec.Struct):
    """A tool as the harness offers it; what a type does not have stays at its default."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = _NULL
    strict: bool | None = None
    format: Format | None = None
    tools: list[Tool] = []


class Choice(msgspec.Struct):
    """A `tool_choice` that names a tool."""

    type: str
    name: str = ""
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The harness's tool behind a function.

    Attributes:
        name: without its namespace.
        namespace: None if it stands in none.
        custom: it takes raw text.
    """

    name: str
    namespace: str | None
    custom: bool


class _Function(msgspec.Struct, omit_defaults=True):
    name: str
    description: str = ""
    parameters: msgspec.Raw = _NULL
    strict: bool = False


class _ChatTool(msgspec.Struct):
    function: _Function
    type: str = "function"


class _Name(msgspec.Struct):
    name: str


class _ChatChoice(msgspec.Struct):
    function: _Name
    type: str = "function"


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a request.

    Attributes:
        functions: the chat field `tools`, raw JSON; empty if there are none.
        origins: by the name of the function.
        strict: one of them wants its arguments sampled under its schema.
    """

    functions: bytes
    origins: dict[str, Origin]
    strict: bool


def function_name(name: str, namespace: str | None) -> str:
    """How the model knows a tool. Namespaces are spelt as vLLM's own Responses server does."""
    return f"{namespace}__{name}" if namespace else name


def offer(tools: list[Tool]) -> Offer:
    """The functions that stand for tools.

    Raises:
        Refused: a tool of a kind that cannot be carried, or two of one name.
    """
    functions: list[_ChatTool] = []
    origins: dict[str, Origin] = {}
    for tool, origin in _flat(tools):
        function = _function(tool, function_name(origin.name, origin.namespace))
        if function.name in origins:
            raise bad_request(f"tools: there are two named {function.name!r}")
        functions.append(_ChatTool(function))
        origins[function.name] = origin
    strict = any(f.function.strict for f in functions)
    return Offer(msgspec.json.encode(functions) if functions else b"", origins, strict)


def chosen(choice: str | Choice) -> msgspec.Raw:
    """The chat field `tool_choice`.

    Raises:
        Refused: a choice that cannot be carried.
    """
    if isinstance(choice, str):
        return msgspec.Raw(msgspec.json.encode(choice))
    if choice.type not in ("function", "custom"):
        raise bad_request(f"tool_choice: {choice.type!r} cannot be carried; choose a function, `auto`, `none` or `required`")
    return msgspec.Raw(msgspec.json.encode(_ChatChoice(_Name(function_name(choice.name, choice.namespace)))))


def _flat(tools: list[Tool]) -> Iterator[tuple[Tool, Origin]]:
    """Functions and custom tools, those in namespaces too; the first of a namespace tells what the namespace is for."""
    for tool in tools:
        if tool.type != "namespace":
            yield from _one(tool, None)
            continue
        about = f"{tool.description}\n\n" if tool.description else ""
        for inner in tool.tools:
            inner.description, about = f"{about}{inner.description or ''}".rstrip(), ""
            yield from _one(inner, tool.name)


def _one(tool: Tool, namespace: str | None) -> Iterator[tuple[Tool, Origin]]:
    if tool.type in HOSTED:
        return
    if tool.type not in ("function", "custom"):
        raise bad_request(f"tools: one of type {tool.type!r} cannot be carried; functions, custom tools and namespaces can")
    if not tool.name:
        raise bad_request(f"tools: one of type {tool.type!r} has no name")
    yield tool, Origin(tool.name, namespace, tool.type == "custom")


def _function(tool: Tool, name: str) -> _Function:
    if tool.type == "custom":
        return _Function(name, described(tool.description or "", tool.format), PARAMETERS)
    return _Function(name, tool.description or "", tool.parameters, bool(tool.strict))
