"""What the trainer's benchmark says, and the bounds that it must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tests.bench.trainer.groups import Shape


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one step of ours, by phase.

    Attributes:
        read: groups from their messages to plain lists, checked.
        weigh: rewards to advantages and weights.
        update: all that the learner does: tensors, veRL's calls, metrics.
        verl: of `update`, veRL's calls.
        cpu: CPU seconds of all phases together, which a busy machine prolongs far less.
    """

    read: float
    weigh: float
    update: float
    verl: float
    cpu: float

    @property
    def step(self) -> float:
        """All phases."""
        return self.read + self.weigh + self.update

    @property
    def own(self) -> float:
        """What is not veRL's."""
        return self.step - self.verl


@dataclass(frozen=True, slots=True)
class Round:
    """A step of ours, and veRL's bare calls on a step's tensors right after it: seconds by veRL's name, and CPU seconds."""

    ours: Phases
    bare: dict[str, float]
    bare_cpu: float


class Push(msgspec.Struct, frozen=True, kw_only=True):
    """New weights into a vLLM that serves, once.

    Attributes:
        bytes: of the weights' file.
        export_s: seconds until it was written.
        load_s: seconds for which generation stood still.
    """

    bytes: int
    export_s: float
    load_s: float

    @property
    def push_s(self) -> float:
        """All of it."""
        return self.export_s + self.load_s


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """What a push does with a file of so many bytes, and a plain copy of it, in seconds; see `tests.bench.trainer.transfer`."""

    bytes: int
    push_s: float
    copy_s: float


class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure and what it has to be at least or at most."""

    found: float
    holds: bool
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one run.

    Attributes:
        shape: of its steps.
        rounds: at least one. The fastest counts, of ours and of veRL's apart: what else the machine does only adds. Where it
            never rests, `own_s` still tells: that is measured within a step, however long veRL's calls in it took.
        pushes: of the step's model, the fastest counts; none without an engine.
        transfers: by size.
    """

    shape: Shape
    rounds: Sequence[Round]
    pushes: Sequence[Push] = ()
    transfers: Sequence[Transfer] = ()

    def bounds(self) -> dict[str, Bound]:
        """Everything that must hold, by name. Shorter steps would measure Python, not training."""
        bare, ratio = self._bare_s, self._ours.step / self._bare_s
        return {
            "bare_step_s": Bound(round(bare, 3), bare >= 1.0, at_least=1.0),
            "overhead_ratio": Bound(round(ratio, 3), ratio <= 1.1, at_most=1.1),
        }

    def json(self) -> bytes:
        """One line: the figures, and their `bounds`."""
        ours, cpu, bare_cpu = self._ours, min(r.ours.cpu for r in self.rounds), min(r.bare_cpu for r in self.rounds)
        by_phase = msgspec.structs.asdict(ours) | {"step": ours.step} | {f"bare_{n}": s for n, s in self._bare.items()}
        del by_phase["cpu"]
        found = {
            "step_s": {name: round(seconds, 4) for name, seconds in by_phase.items()},
            "overhead_ratio": round(ours.step / self._bare_s, 3),
            "own_s": round(min(r.ours.own for r in self.rounds), 4),
            "cpu_s": {"step": round(cpu, 4), "bare": round(bare_cpu, 4), "ratio": round(cpu / bare_cpu, 3)},
            "tokens": self.shape.tokens,
            "tokens_per_s": round(self.shape.tokens / ours.step),
            "trained_tokens_per_s": round(self.shape.trained / ours.step),
        }
        if self.pushes:
            best = min(self.pushes, key=lambda push: push.push_s)
            found |= {"push_s": round(best.push_s, 4), "push_bytes": best.bytes, "push": best}
        if self.transfers:
            found["transfers"] = self.transfers
        return msgspec.json.encode(found | {"bounds": self.bounds()})

    @property
    def _ours(self) -> Phases:
        return min((r.ours for r in self.rounds), key=lambda phases: phases.step)

    @property
    def _bare(self) -> dict[str, float]:
        return min((r.bare for r in self.rounds), key=lambda bare: sum(bare.values()))

    @property
    def _bare_s(self) -> float:
        return sum(self._bare.values())
