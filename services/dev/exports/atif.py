"""The Agent Trajectory Interchange Format, ATIF-v1.8, as Harbor reads it. Unknown fields are refused, here as there."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from shared.errors import ArchiveError

VERSION: Literal["ATIF-v1.8"] = "ATIF-v1.8"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything of the format: nothing beside what is named, nothing where there is nothing to say."""


class TextPart(_Part, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A text among other content."""

    text: str


class ImageSource(_Part, frozen=True, kw_only=True):
    """Where an image lies: a path relative to the trajectory's file."""

    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    path: str


class ImagePart(_Part, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image, by its path."""

    source: ImageSource


Content = str | list[TextPart | ImagePart]


class ToolCall(_Part, frozen=True, kw_only=True):
    """A call of a tool."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class Result(_Part, frozen=True, kw_only=True):
    """What a tool gave; `source_call_id` is a tool call of the same step."""

    source_call_id: str | None = None
    content: Content | None = None


class Observation(_Part, frozen=True, kw_only=True):
    """What came back to the agent after a step."""

    results: list[Result]


class Metrics(_Part, frozen=True, kw_only=True):
    """Of one model call. `logprobs` has one natural log per id of `completion_token_ids`."""

    prompt_tokens: int
    completion_tokens: int
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class Step(_Part, frozen=True, kw_only=True):
    """One step; the fields from `model_name` to `metrics` are the agent's alone.

    Attributes:
        step_id: 1, 2, 3, ...
        is_copied_context: the step is told in another trajectory of the document; not to be trained on here.
    """

    step_id: int
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    message: Content
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    metrics: Metrics | None = None
    observation: Observation | None = None
    is_copied_context: bool | None = None
    extra: dict[str, Any] | None = None


class Agent(_Part, frozen=True, kw_only=True):
    """The harness."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None


class FinalMetrics(_Part, frozen=True, kw_only=True):
    """Sums over the steps that are not copied."""

    total_prompt_tokens: int
    total_completion_tokens: int
    total_steps: int


class Trajectory(_Part, frozen=True, kw_only=True):
    """A conversation, with the others of the rollout in `subagent_trajectories`."""

    schema_version: Literal["ATIF-v1.8"]
    session_id: str
    trajectory_id: str
    agent: Agent
    steps: list[Step]
    final_metrics: FinalMetrics | None = None
    subagent_trajectories: list[Trajectory] | None = None
    extra: dict[str, Any] | None = None


def encode(trajectory: Trajectory) -> bytes:
    """The document as JSON.

    Raises:
        ArchiveError: it breaks a rule of the format.
    """
    _check(trajectory)
    return msgspec.json.encode(trajectory) + b"\n"


def decode(data: bytes) -> Trajectory:
    """A document.

    Raises:
        ArchiveError: it is no such document.
    """
    try:
        trajectory = msgspec.json.decode(data, type=Trajectory)
    except msgspec.DecodeError as e:
        raise ArchiveError(f"not {VERSION}: {e}") from None
    _check(trajectory)
    return trajectory


def _check(trajectory: Trajectory) -> None:
    """The rules that types do not tell."""
    ids = [t.trajectory_id for t in (trajectory, *(trajectory.subagent_trajectories or ()))]
    if len(set(ids)) != len(ids):
        raise ArchiveError(f"{trajectory.trajectory_id}: two trajectories of the document have one id")
    for t in (trajectory, *(trajectory.subagent_trajectories or ())):
        if not t.steps:
            raise ArchiveError(f"{t.trajectory_id} has no steps")
        for number, step in enumerate(t.steps, start=1):
            _check_step(f"{t.trajectory_id} step {number}", number, step)


def _check_step(name: str, number: int, step: Step) -> None:
    if step.step_id != number:
        raise ArchiveError(f"{name} is numbered {step.step_id}")
    told = (step.model_name, step.reasoning_content, step.tool_calls, step.metrics)
    if step.source != "agent" and any(value is not None for value in told):
        raise ArchiveError(f"{name} has an agent's fields, but is a {step.source}'s")
    called = {c.tool_call_id for c in step.tool_calls or ()}
    results = step.observation.results if step.observation else []
    if lost := [r.source_call_id for r in results if r.source_call_id is not None and r.source_call_id not in called]:
        raise ArchiveError(f"{name} has results of {lost}, which it did not call")
