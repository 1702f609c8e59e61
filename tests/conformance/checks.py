"""What must be true of a cell. Pure: from what a rollout left behind to a list of complaints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from shared.events import CallRecorded, RolloutFinished, TrajectoryAssembled
from shared.packing import unpack_ids
from tests.conformance.programs import Program
from tests.conformance.scenes import SCENES
from tests.conformance.stage import Evidence

Json = dict[str, Any]


def complaints(scene: str, program: Program, evidence: Evidence, mode: str) -> list[str]:
    """All that is wrong with a cell; empty when it passes.

    Args:
        scene: its name.
        program: what is known of the program.
        evidence: of the rollout.
        mode: of the proxy, `record` or `splice`.
    """
    found = [*_outcome(evidence, may_end=scene in program.ends), *_records(evidence), *_tokens(evidence), *_roles(evidence)]
    if mode == "splice":
        found += _rows(evidence, program.rows.get(scene, SCENES[scene].rows), program.rewrites)
    return [*found, *_SEEN.get(scene, _nothing)(evidence)]


def _outcome(evidence: Evidence, may_end: bool) -> Iterator[str]:
    outcome = evidence.outcome
    if outcome is None:
        yield "the rollout never ended"
    elif not isinstance(outcome, RolloutFinished):
        yield f"{type(outcome).__name__}: {getattr(outcome, 'detail', '')}"[:300]
    elif outcome.reward != 1 and not may_end:
        yield f"the task was not done (exit code {outcome.exit_code}): {evidence.output[-200:]!r}"


def _records(evidence: Evidence) -> Iterator[str]:
    """Every call that the engine sampled for is recorded once, token for token; every other one is accounted for."""
    sealed = evidence.sealed
    if sealed is None:
        yield "the session was not sealed"
        return
    records = {record.seq: record for record in evidence.records}
    if len(records) != len(evidence.records):
        yield "a call is recorded twice"
    if sealed.lost:
        yield f"calls {sealed.lost} are lost"
    if (given := set(range(1, sealed.calls + 1))) != records.keys() | set(sealed.errored):
        yield f"calls {sorted(given ^ (records.keys() | set(sealed.errored)))} have no record and are not errored either"
    for seq, entries in evidence.engine.items():
        if sum(entry["status"] == 200 for entry in entries) > 1:
            yield f"call {seq} reached the engine {len(entries)} times"
        if seq in records:
            yield from _same(records[seq], entries[-1])
        elif entries[-1]["token_ids"] and entries[-1]["finish_reason"] != "abort":
            yield f"call {seq} was sampled whole, but has no record"
    if unknown := records.keys() - evidence.engine.keys():
        yield f"the engine never saw the calls {sorted(unknown)}"


def _same(record: CallRecorded, entry: Json) -> Iterator[str]:
    """A record and the engine's own log agree; of a reply that was cut, the proxy may have read less."""
    sampled, ids = entry["token_ids"], unpack_ids(record.completion)
    if (record.prompt_len, record.prompt_digest) != (entry["prompt_len"], entry["prompt_digest"]):
        yield f"call {record.seq}: another prompt was recorded than the engine saw"
    if ids != (sampled[: len(ids)] if record.delivery == "cut" else sampled):
        yield f"call {record.seq}: other tokens were recorded than the engine sampled"


def _tokens(evidence: Evidence) -> Iterator[str]:
    assembled = evidence.assembled
    if not isinstance(assembled, TrajectoryAssembled):
        if isinstance(evidence.outcome, RolloutFinished):
            yield f"no rows: {getattr(assembled, 'reason', 'nothing assembled')} {getattr(assembled, 'detail', '')}"
        return
    tokens, sampled = assembled.tokens, sum(len(record.completion) // 4 for record in evidence.records)
    if tokens.sampled != sampled or tokens.trained + tokens.masked + tokens.dropped != sampled:
        yield f"{sampled} tokens were sampled, but {tokens} are accounted for"


def _rows(evidence: Evidence, wanted: int | None, rewrites: bool) -> Iterator[str]:
    """One row for a conversation that only grows; one a trained call where each prompt is new."""
    if rewrites:
        wanted = sum(record.role in ("main", "summary") and record.delivery == "sent" for record in evidence.records)
    if isinstance(evidence.assembled, TrajectoryAssembled) and wanted not in (None, evidence.assembled.rows):
        yield f"{evidence.assembled.rows} rows in place of {wanted}"


def _roles(evidence: Evidence) -> Iterator[str]:
    for record in evidence.records:
        noted = {entry["note"] for entry in evidence.engine.get(record.seq, [])}
        if noted and record.role not in noted:
            yield f"call {record.seq} has the role {record.role}, not {'/'.join(sorted(noted))}"


def _entries(evidence: Evidence) -> list[Json]:
    return [entry for entries in evidence.engine.values() for entry in entries]


def _nothing(_: Evidence) -> Iterator[str]:
    yield from ()


def _streamed(evidence: Evidence) -> Iterator[str]:
    if not all(record.streamed for record in evidence.records if record.role == "main"):
        yield "a call was not streamed"


def _two_calls(evidence: Evidence) -> Iterator[str]:
    if not any(_calls_in(record.reply) == 2 for record in evidence.records):
        yield "no reply with two tool calls was recorded"


def _calls_in(reply: Json) -> int:
    """Tool calls of a reply, or actions of one that is their list as JSON."""
    try:
        said = json.loads(reply.get("content") or "")
    except ValueError:
        said = {}
    return len(reply.get("tool_calls") or (said.get("action", []) if isinstance(said, dict) else []))


def _thought(evidence: Evidence) -> Iterator[str]:
    if not any(record.reply.get("reasoning") for record in evidence.records):
        yield "no thinking was recorded"


def _statuses(*wanted: int) -> Any:
    def check(evidence: Evidence) -> Iterator[str]:
        seen = {entry["status"] for entry in _entries(evidence)}
        if not seen.issuperset(wanted):
            yield f"the engine did not get to answer {sorted(set(wanted) - seen)}"

    return check


def _broken(evidence: Evidence) -> Iterator[str]:
    if not any(entry["finish_reason"] == "abort" for entry in _entries(evidence)):
        yield "no connection was broken"


def _note(wanted: str) -> Any:
    def check(evidence: Evidence) -> Iterator[str]:
        if not any(entry["note"] == wanted for entry in _entries(evidence)):
            yield f"there was no {wanted} call"

    return check


def _pictures(evidence: Evidence) -> Iterator[str]:
    if not any(entry["images"] for entry in _entries(evidence)):
        yield "no picture reached the engine"


_SEEN = {
    "streaming": _streamed, "parallel": _two_calls, "thinking": _thought, "retry": _statuses(429, 500),
    "disconnect": _broken, "overflow": _statuses(400), "subagent": _note("sub"), "compaction": _note("summary"),
    "image": _pictures,
}  # fmt: skip
