"""Who begins next."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.queue import Bucket, Caps, Queue, Ticket


def ticket(number: int, task: str = "", priority: int = 0) -> Ticket:
    return Ticket(-priority, number, f"r{number}", task or f"t{number}")


def drain(queue: Queue) -> list[str]:
    """Those who may begin now, in order."""
    return [t.name for t in iter(queue.next, None)]


def test_who_was_asked_for_first_begins_first_and_the_rest_waits() -> None:
    queue = Queue(Caps(2))
    for number in (3, 1, 2):
        queue.add(ticket(number))
    assert drain(queue) == ["r1", "r2"]
    assert (len(queue), queue.next()) == (1, None)
    queue.release("r1")
    assert drain(queue) == ["r3"]


def test_a_higher_priority_goes_ahead() -> None:
    queue = Queue(Caps(3))
    for t in (ticket(1), ticket(2, priority=5), ticket(3, priority=-1), ticket(4, priority=5)):
        queue.add(t)
    assert drain(queue) == ["r2", "r4", "r1"]


def test_what_a_cap_holds_back_lets_others_pass() -> None:
    queue = Queue(Caps(3, task=1))
    for number, task in enumerate(["a", "a", "b", "c", "d"]):
        queue.add(ticket(number, task=task))
    assert drain(queue) == ["r0", "r2", "r3"]  # r1 waits for its task, r4 for a place
    queue.release("r0")
    assert drain(queue) == ["r1"]


def test_one_that_is_dropped_never_begins_and_may_come_again() -> None:
    queue = Queue(Caps(5, task=1))
    for number in range(3):
        queue.add(ticket(number, task="a"))
    assert drain(queue) == ["r0"]
    assert queue.drop("r1")
    assert not queue.drop("r1")
    queue.release("r0")
    assert drain(queue) == ["r2"]
    queue.add(ticket(1, task="b"))
    assert drain(queue) == ["r1"]


def test_what_an_earlier_orchestrator_began_counts_even_beyond_the_caps() -> None:
    queue = Queue(Caps(2))
    for number in range(3):
        queue.occupy(ticket(number))
    queue.add(ticket(3))
    queue.release("r0")
    assert drain(queue) == []
    queue.release("r1")
    assert drain(queue) == ["r3"]


def test_one_that_is_dropped_leaves_its_place_to_the_next_of_its_task() -> None:
    queue = Queue(Caps(5, task=1))
    for number in range(3):
        queue.add(ticket(number, task="a"))
    assert drain(queue) == ["r0"]
    queue.release("r0")
    queue.drop("r1")
    assert drain(queue) == ["r2"]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 30)),
        st.tuples(st.just("drop"), st.integers(0, 30)),
        st.tuples(st.just("release"), st.integers(0, 30)),
        st.just(("next", 0)),
    ),
    max_size=120,
)


@given(steps, st.integers(1, 5), st.integers(0, 2))
def test_caps_hold_and_nobody_who_may_begin_is_left_waiting(steps: list[tuple[str, int]], n: int, task: int) -> None:
    queue, waiting = Queue(Caps(n, task)), dict[str, Ticket]()
    running: dict[str, Ticket] = {}
    tickets = [ticket(i, f"t{i % 3}", priority=i % 2) for i in range(31)]

    def may(t: Ticket) -> bool:
        of_task = sum(o.task == t.task for o in running.values())
        return len(running) < n and (not task or of_task < task)

    for what, i in [*steps, *[("next", 0)] * 40]:
        t = tickets[i]
        if what == "add" and t.name not in running:
            queue.add(t)
            waiting[t.name] = t
        elif what == "drop":
            assert queue.drop(t.name) == (waiting.pop(t.name, None) is not None)
        elif what == "release":
            queue.release(t.name)
            running.pop(t.name, None)
        elif what == "next":
            free = [o for o in waiting.values() if may(o)]
            got = queue.next()
            assert (got is not None) == bool(free)
            if got:
                assert got == min(free)
                running[got.name] = waiting.pop(got.name)
        assert len(queue) == len(waiting)


def test_ten_thousand_with_tight_caps_take_no_noticeable_time() -> None:
    queue = Queue(Caps(500, task=2))
    for number in range(10_000):
        queue.add(ticket(number, task=f"t{number % 300}"))
    began, before = 0, time.process_time()
    running: list[str] = []
    while len(queue) or running:
        running += drain(queue)
        began += 1
        queue.release(running.pop(0))
    assert time.process_time() - before < 2
    assert began == 10_000


@given(st.floats(0.1, 1000), st.lists(st.floats(0, 2), min_size=1, max_size=60))
def test_a_bucket_lets_no_more_through_than_its_rate(rate: float, waits: list[float]) -> None:
    bucket, now, taken = Bucket(rate), 100.0, 0
    for wait in waits:
        now += wait
        left = bucket.take(now)
        taken += left == 0
        assert left <= 1 / rate + 1e-6
    assert taken <= max(rate, 1) + (now - 100.0) * rate + 1e-6


def test_a_bucket_says_when_there_will_be_one() -> None:
    bucket = Bucket(2)
    assert [bucket.take(10.0), bucket.take(10.0)] == [0, 0]
    assert bucket.take(10.0) == 0.5
    assert bucket.take(10.5) == 0
    assert Bucket(0).take(0) == 0
