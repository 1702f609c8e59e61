"""What a run's own messages tell as traces."""

from __future__ import annotations

from collections.abc import Sequence

from shared.config import TracesConfig
from shared.trace.context import group_place
from shared.trace.spans import Span
from shared.trace.tracer import Tracer
from tests.unit.trainer.twins import MakeWorld


class Kept:
    """Keeps spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def take(self, spans: Sequence[Span]) -> None:
        self.spans += spans


async def test_every_step_leads_to_the_groups_that_it_learned_from_and_to_its_pushes(make_world: MakeWorld) -> None:
    world, kept = await make_world(), Kept()
    await world.run()
    tracer = Tracer(TracesConfig(to="file"), kept)
    for message in world.seen:
        tracer.published(message)
    steps = [span for span in kept.spans if span.name.startswith("step ")]
    assert [span.name for span in steps] == ["step 1", "step 2"]
    for number, step in enumerate(steps, start=1):
        assert set(step.links) == {group_place("run-1", f"run-1-s{number}-g0{group}") for group in range(3)}
        own = [span for span in kept.spans if span.parent == step.place]
        assert [span.name for span in own] == ["weights written", "push", "gen", "update", "push"]
        assert all(step.start <= span.start <= span.end <= step.end + 0.1 for span in own if span.name in ("gen", "update"))
    assert len({span.place for span in kept.spans}) == len(kept.spans)
