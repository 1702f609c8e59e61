"""Who gets the places that several runs share."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.fairness import settled
from shared.store.shares import Part

WEIGHTS = st.sampled_from([0.01, 0.5, 1.0, 2.0, 7.0])


@dataclass
class Table:
    """Runs around a pool of one size; each speaks when a test says so."""

    size: int
    weights: dict[str, float]
    parts: dict[str, Part] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    want: dict[str, int] = field(default_factory=dict)

    def speak(self, run: str) -> None:
        """The run tells what it holds and wants, and fills what it gets."""
        held, others = self.held.get(run, 0), {name: part for name, part in self.parts.items() if name != run}
        turn = self.parts[run].turn if run in self.parts else 0
        want = max(held, self.want.get(run, 0))
        mine = Part(weight=self.weights[run], size=self.size, held=held, want=want, room=held, turn=turn)
        self.parts[run] = settled(run, mine, others)
        self.held[run] = min(want, self.parts[run].room)

    def rest(self) -> None:
        """All speak until nothing changes any more."""
        for _ in range(3):
            for run in self.weights:
                self.speak(run)

    @property
    def taken(self) -> int:
        return sum(self.held.values())


def table(size: int, weights: list[float]) -> Table:
    return Table(size, {f"run{n}": weight for n, weight in enumerate(weights)})


steps = st.lists(st.tuples(st.sampled_from(["want", "end", "speak"]), st.integers(0, 3), st.integers(0, 12)), max_size=60)


@given(st.integers(1, 10), st.lists(WEIGHTS, min_size=4, max_size=4), steps)
def test_never_are_there_more_than_the_pool_has_and_none_is_left_empty_that_somebody_wants(
    size: int, weights: list[float], steps: list[tuple[str, int, int]]
) -> None:
    t = table(size, weights)
    for what, number, n in steps:
        run = f"run{number}"
        if what == "want":
            t.want[run] = n
        elif what == "end":
            t.held[run] = max(0, t.held.get(run, 0) - n)
        else:
            t.speak(run)
        assert sum(part.room for part in t.parts.values()) <= size
        assert t.taken <= size
    t.rest()
    wanted = sum(max(t.held[run], t.want.get(run, 0)) for run in t.weights)
    assert t.taken == min(size, wanted)


@settings(max_examples=40)
@given(st.integers(4, 40), st.lists(WEIGHTS, min_size=2, max_size=4))
def test_places_are_in_proportion_to_weight_when_all_want_them(size: int, weights: list[float]) -> None:
    t = table(size, weights)
    t.want = dict.fromkeys(t.weights, 1000)
    t.rest()
    t.held.clear()  # all that the first of them took before it knew the others has ended
    t.rest()
    assert t.taken == size
    for mine in t.weights:
        for other in t.weights:  # not one place more could have been given to somebody worse off
            assert (t.held[mine] - 1) / t.weights[mine] <= t.held[other] / t.weights[other] + 1e-9


@settings(max_examples=40)
@given(st.integers(1, 6), st.lists(WEIGHTS, min_size=2, max_size=4))
def test_no_run_starves_however_small_its_weight_and_the_pool(size: int, weights: list[float]) -> None:
    t = table(size, weights)
    t.want = dict.fromkeys(t.weights, 1000)
    served: set[str] = set()
    for _ in range(30):  # one rollout ends after the other, in the run that has the most
        most = max(t.held, key=lambda run: t.held[run], default="run0")
        t.held[most] = max(0, t.held.get(most, 0) - 1)
        t.rest()
        served |= {run for run, held in t.held.items() if held}
    assert served == set(t.weights)


def test_what_a_run_does_not_need_is_lent_and_comes_back_as_rollouts_end() -> None:
    t = table(6, [1.0, 1.0])
    t.want = {"run0": 50}
    t.rest()
    assert t.held == {"run0": 6, "run1": 0}
    t.want["run1"] = 50
    t.rest()
    assert t.held["run1"] == 0  # nothing is taken away
    for _ in range(10):
        t.held["run0"] = max(3, t.held["run0"] - 1)
        t.rest()
    assert t.held == {"run0": 3, "run1": 3}


def test_a_pool_that_began_a_moment_ago_gives_nothing() -> None:
    mine = Part(weight=1, size=4, held=1, want=4, room=1)
    assert settled("a", mine, {}, young=True).room == 1
    assert settled("a", mine, {}).room == 4


def test_the_smallest_size_that_a_run_was_told_counts() -> None:
    mine = Part(weight=1, size=9, held=0, want=9, room=0)
    other = Part(weight=1, size=4, held=1, want=1, room=1)
    assert settled("a", mine, {"b": other}).room == 3
