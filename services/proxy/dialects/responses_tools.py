"""Tools of a Responses request as chat functions, and back: which tool of the harness a function that the model calls is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import Raw

from services.proxy.dialects import terms
from services.proxy.dialects.responses_custom import PARAMETERS, Format, described
from services.proxy.errors import bad_request

SEARCH = "tool_search"
"""The tool, and the function that stands for it, by which a model asks the harness for more tools."""

HOSTED = frozenset(
    {
        "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "file_search",
        "code_interpreter", "image_generation", "mcp", "tool_search",  # a search that the harness runs is carried
    }
)  # fmt: skip
"""Tools that the API's own servers run. They are left out: the model is not told of them, so it never calls one."""


class Tool(msgspec.Struct):
    """A tool as the harness offers it; what a type does not have stays at its default."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: terms.Schema | None = None
    strict: bool | None = None
    execution: str | None = None
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
        kind: what a call of it is: of a function, of a custom tool, or a search for tools.
    """

    name: str
    namespace: str | None = None
    kind: Literal["function", "custom", "search"] = "function"


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a request.

    Attributes:
        functions: the chat field `tools`.
        origins: by the name of the function.
    """

    functions: list[terms.Tool]
    origins: dict[str, Origin]

    @property
    def strict(self) -> bool:
        """Whether one wants its arguments sampled under its schema."""
        return any(tool.function.strict for tool in self.functions)


def function_name(name: str, namespace: str | None) -> str:
    """How the model knows a tool. Namespaces are spelt as vLLM's own Responses server does."""
    return f"{namespace}__{name}" if namespace else name


def offer(tools: list[Tool]) -> Offer:
    """The functions that stand for tools; of two with one name the first counts, since a search may find what is known.

    Raises:
        Refused: a tool of a kind that cannot be carried.
    """
    functions: dict[str, terms.Tool] = {}
    origins: dict[str, Origin] = {}
    for tool, origin, description in _flat(tools):
        name = function_name(origin.name, origin.namespace)
        functions.setdefault(name, terms.Tool(_function(tool, name, description)))
        origins.setdefault(name, origin)
    return Offer(list(functions.values()), origins)


def function_names(tools: list[Tool]) -> list[str]:
    """How the model knows tools."""
    return [function_name(origin.name, origin.namespace) for _, origin, _ in _flat(tools)]


def chosen(choice: str | Choice) -> Raw:
    """The chat field `tool_choice`.

    Raises:
        Refused: a choice that cannot be carried.
    """
    if isinstance(choice, str):
        return terms.raw(choice)
    if choice.type not in ("function", "custom"):
        raise bad_request(f"tool_choice: {choice.type!r} cannot be carried; choose a function, `auto`, `none` or `required`")
    return terms.named_choice(function_name(choice.name, choice.namespace))


def _flat(tools: list[Tool]) -> Iterator[tuple[Tool, Origin, str]]:
    """Tools that the model can be offered, those in namespaces too, with their descriptions.

    The first of a namespace tells what the namespace is for: a chat has no other place for it.
    """
    for tool in tools:
        about = f"{tool.description}\n\n" if tool.type == "namespace" and tool.description else ""
        inner, namespace = (tool.tools, tool.name) if tool.type == "namespace" else ([tool], None)
        for one in inner:
            if one.type in HOSTED and one.execution != "client":
                continue
            yield one, _origin(one, namespace), f"{about}{one.description or ''}".rstrip()
            about = ""


def _origin(tool: Tool, namespace: str | None) -> Origin:
    if tool.type == SEARCH:
        return Origin(SEARCH, None, "search")
    if tool.type not in ("function", "custom"):
        raise bad_request(f"tools: one of type {tool.type!r} cannot be carried; functions, custom tools and namespaces can")
    if not tool.name:
        raise bad_request(f"tools: one of type {tool.type!r} has no name")
    return Origin(tool.name, namespace, "custom" if tool.type == "custom" else "function")


def _function(tool: Tool, name: str, description: str) -> terms.Function:
    if tool.type == "custom":
        return terms.Function(name, described(description, tool.format), PARAMETERS)
    return terms.Function(name, description or None, tool.parameters, tool.strict or None)
