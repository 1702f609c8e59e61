"""What of a deployment counts as broken."""

from __future__ import annotations

import io

from msgspec.structs import replace
from rich.console import Console

from services.dev.status.model import EXPECTED, Engine, Lagging, Status, failing_of, judged, present, queues_of, with_problems
from services.dev.status.show import render
from shared.watch.word import Failure, Sample, Word

NOW = 1000.0


def word(service: str = "proxy", **fields: object) -> Word:
    return replace(Word(service=service, host="h", pid=1, began=500.0, at=NOW - 1), **fields)


def test_a_service_that_was_not_heard_of_is_broken_and_so_is_one_that_lacks_something() -> None:
    assert judged(word(), NOW).wrong == ""
    assert judged(word(at=NOW - 60), NOW).wrong == "not heard of for 60 s"
    assert judged(word(missing={"bus": "is away"}), NOW).wrong == "bus: is away"


def test_a_process_that_was_started_again_is_not_missed() -> None:
    old, new = word(at=NOW - 60), word(pid=2, began=NOW - 50)
    assert [s.word for s in present([old, new], NOW)] == [new]
    elsewhere = word(pid=2, began=NOW - 50, host="other")
    assert [s.wrong for s in present([old, elsewhere], NOW)] == ["not heard of for 60 s", ""]
    assert present([word(at=NOW - 1000)], NOW) == []


def test_what_is_broken_is_named() -> None:
    status = Status(
        run_id="r", at=NOW, bus="did not answer", engines=[Engine("http://e", "does not answer"), Engine("http://f")],
        services=[judged(word(name, missing={"bus": "no"} if name == "trainer" else {}), NOW) for name in EXPECTED[1:]],
    )  # fmt: skip
    assert with_problems(status, EXPECTED).problems == [
        "bus: did not answer",
        "engine http://e: does not answer",
        "proxy: no such service is known",
        "trainer: bus: no",
    ]


def test_a_deployment_without_faults_is_well() -> None:
    services = [judged(word(name), NOW) for name in EXPECTED]
    assert with_problems(Status(run_id="r", at=NOW, services=services), EXPECTED).problems == []


def test_queues_of_several_processes_are_added_but_for_what_all_of_them_see() -> None:
    orchestrator = word("orchestrator", metrics=[Sample("rollouts", ["waiting"], 3.0)])
    collector = word("collector", metrics=[Sample("groups_open", [], 4.0)])
    services = [judged(w, NOW) for w in (orchestrator, replace(orchestrator, pid=2), collector, replace(collector, pid=2))]
    queues = queues_of(services)
    assert (queues["rollouts waiting"], queues["groups open"]) == (6, 4)


def test_failures_are_counted_by_class_and_verdicts_are_none() -> None:
    ends = [Sample("rollouts_ended_total", [outcome, "boot"], 2.0) for outcome in ("finished", "timed_out", "ImageError")]
    ends.append(Sample("rollouts_ended_total", ["ImageError", "pull"], 1.0))
    assert failing_of([judged(word("orchestrator", metrics=ends), NOW)]) == {"ImageError": 3}


def test_all_of_it_is_shown_and_nothing_of_a_stranger_reaches_the_terminal() -> None:
    failure = Failure(NOW, "r1", 2, "ImageError", "pull", "no such\x1b[2Jimage", final=True)
    status = Status(
        run_id="run-7", at=NOW, store="no answer", services=[judged(word(), NOW)], engines=[Engine("http://e", "", True, 3, 1)],
        lags=[Lagging("collector-calls", "FORGE-CALLS", 12)], streams={"FORGE-DEAD": (5, 100)}, failures=[failure],
        failing={"ImageError": 3}, queues={"rollouts waiting": 8},
    )  # fmt: skip
    out = io.StringIO()
    Console(file=out, width=160, highlight=False).print(render(with_problems(status, ["proxy"])))
    shown = ("run-7", "http://e", "v3", "takes calls", "collector-calls", "12", "5 messages", "ImageError", "rollouts waiting")
    assert [part for part in (*shown, "broken: store: no answer") if part not in out.getvalue()] == []
    assert "\x1b[2J" not in out.getvalue()
