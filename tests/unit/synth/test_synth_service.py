"""Candidates from proposal to their end, with a bus in memory and an orchestrator that is played."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from services.synth.model import Proposal
from services.synth.ports import Gate, Room
from shared.bus.memory import MemoryBus
from shared.config import BudgetConfig
from shared.errors import MakerError
from shared.events import RolloutStart, TaskProposed, TaskTried
from shared.task import load_task
from tests.unit.synth.house import RUN, Careful, Played, Poor, Solved, Stage, Words, serving, stage
from tests.waiting import until

THROUGH = ["TaskProposed", "TaskBuilt", "TaskTried", "TaskAccepted"]


def ended(scene: Stage, count: int) -> bool:
    tasks = list(scene.books.all())
    return len(tasks) == count and all(task.over or task.held for task in tasks)


async def test_a_sound_task_is_proposed_built_tried_and_accepted_with_what_is_known_of_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene, serving(scene, Careful(), [Solved()]):
        await scene.ask(0)
        await until(lambda: scene.tags(0) == THROUGH)
    [task] = scene.books.all()
    known = scene.books.known_of(task.name)
    assert known is not None
    assert (known.digest, known.run, known.rounds, known.split) == (task.digest, RUN, 0, "train")
    assert known.verdicts[0].evidence == {"rewards": [0.0, 1.0]}
    assert known.proposal.lineage.seed == int(task.name.removeprefix("words-"))
    assert load_task(scene.books.accepted / task.name).instruction.startswith("Write the word")
    assert [start.harness for start in scene.rollouts] == ["null", "oracle"]


async def test_a_task_that_nobody_can_mend_is_rejected_with_its_gate_and_reason(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene, serving(scene, Careful(), [Solved()]):
        scene.rewards["null"] = 1.0
        await scene.ask(0)
        await until(lambda: "TaskRejected" in scene.tags(0))
    [task] = scene.books.all()
    assert (task.stage, task.gate, task.reason, task.round) == ("rejected", "solved", "unsolved", 0)
    assert not scene.books.accepted.exists()


async def test_what_failed_goes_back_to_its_maker_and_then_to_quarantine_with_its_history(tmp_path: Path) -> None:
    maker = Careful(mends=True)
    async with stage(tmp_path, rounds=2) as scene, serving(scene, maker, [Played(judges=lambda *_: "ugly")]):
        await scene.ask(0)
        await until(lambda: "TaskRejected" in scene.tags(0))
    [task] = scene.books.all()
    assert (task.stage, task.round, task.reason) == ("quarantined", 2, "ugly")
    assert maker.refined == [(task.name, "ugly")] * 2
    assert [scene.books.verdicts(task, n)[0].reason for n in range(3)] == ["ugly"] * 3
    assert [(scene.books.round(task, n) / "task" / "mended.txt").exists() for n in range(3)] == [False, True, True]
    assert scene.tags(0) == [
        "TaskProposed", "TaskBuilt", "TaskTried", "TaskRefined", "TaskTried", "TaskRefined", "TaskTried", "TaskRejected",
    ]  # fmt: skip


async def test_a_task_that_was_mended_is_accepted_and_tells_how_often(tmp_path: Path) -> None:
    def judges(proposal: Proposal, folder: Path, room: Room) -> str:
        return "" if (folder / "mended.txt").exists() else "ugly"

    async with stage(tmp_path) as scene, serving(scene, Careful(mends=True), [Played(judges=judges), Solved()]):
        await scene.ask(0)
        await until(lambda: "TaskAccepted" in scene.tags(0))
    [task] = scene.books.all()
    known = scene.books.known_of(task.name)
    assert known is not None
    assert known.rounds == 1
    assert (scene.books.accepted / task.name / "mended.txt").exists()


async def test_proposals_that_ask_for_the_same_are_pruned_before_anything_is_built(tmp_path: Path) -> None:
    class Twice(Careful):
        async def propose(self, number: int) -> Proposal:
            if number == 2:
                raise MakerError("nothing comes to mind")
            return await super().propose(0)

    maker = Twice()
    async with stage(tmp_path, parallel=1) as scene, serving(scene, maker, []):
        await scene.ask(0, 1, 2)
        await until(lambda: ended(scene, 3))
    tasks = list(scene.books.all())
    assert [(task.stage, task.gate, task.reason) for task in tasks] == [
        ("accepted", "", ""), ("rejected", "prune", "same-name"), ("rejected", "maker", "no-proposal"),
    ]  # fmt: skip
    assert len(maker.built) == 1


async def test_a_task_that_became_a_copy_while_it_was_tried_is_not_accepted(tmp_path: Path) -> None:
    """Two are tried at once: neither finds the other among the accepted ones, until one is."""

    def judges(proposal: Proposal, folder: Path, room: Room) -> str:
        return "copy" if room.pool.accepted() else ""

    gates: list[Gate] = [Played(name="copies", compares=True, judges=judges), Solved()]
    async with stage(tmp_path, parallel=2) as scene, serving(scene, Careful(), gates):
        await scene.ask(0, 1)
        await until(lambda: ended(scene, 2))
    assert sorted((task.stage, task.reason) for task in scene.books.all()) == [("accepted", ""), ("rejected", "copy")]


async def test_a_message_that_comes_again_repeats_nothing(tmp_path: Path) -> None:
    gate, maker = Played(), Careful()
    async with stage(tmp_path) as scene, serving(scene, maker, [gate, Solved()]) as service:
        await scene.ask(0)
        await until(lambda: ended(scene, 1))
        for old in (TaskProposed(run_id=RUN, task_id="n00000"), TaskTried(run_id=RUN, task_id="n00000")):
            await service._handle(old)
        await scene.ask(0)
        await until(lambda: len(scene.tags(0)) > 6)
    assert (len(maker.built), len(gate.asked), len(scene.rollouts)) == (1, 1, 2)
    assert set(scene.tags(0)) == set(THROUGH)


async def test_what_costs_more_than_there_is_waits_and_goes_on_where_it_stood(tmp_path: Path) -> None:
    first, poor, maker = Played(name="first"), Poor(), Careful()
    async with stage(tmp_path) as scene:
        async with serving(scene, maker, [first, Solved(), poor]):
            await scene.ask(0)
            await until(lambda: ended(scene, 1))
        [task] = scene.books.all()
        assert (task.stage, task.held) == ("built", "all is spent")
        poor.money = True
        async with serving(scene, maker, [first, Solved(), poor]):
            await scene.ask(0)
            await until(lambda: next(scene.books.all()).stage == "accepted")
    assert (len(maker.built), len(first.asked), len(scene.rollouts)) == (1, 1, 2), "nothing was done twice"


async def test_rollouts_beyond_the_budget_are_not_asked_for(tmp_path: Path) -> None:
    async with stage(tmp_path, budget=BudgetConfig(max_rollouts=3), parallel=1) as scene, serving(scene, Careful(), [Solved()]):
        await scene.ask(0, 1)
        await until(lambda: ended(scene, 2))
    one, other = scene.books.all()
    assert (one.stage, other.stage) == ("accepted", "built")
    assert "synth.budget.max_rollouts" in other.held
    assert len(scene.rollouts) == 2


async def test_a_trial_that_the_infrastructure_lost_is_made_again_and_is_nobodys_fault(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene, serving(scene, Careful(), [Solved()]):
        scene.loses = {"oracle"}
        await scene.ask(0)
        await until(lambda: ended(scene, 1))
        [task] = scene.books.all()
        assert "Evicted" in task.held
        await scene.ask(0)
        await until(lambda: next(scene.books.all()).stage == "accepted")
    ids = [start.rollout_id for start in scene.rollouts]
    assert [(start.harness, start.rollout_id[-3:]) for start in scene.rollouts] == [
        ("null", "-l1"), ("oracle", "-l1"), ("oracle", "-l2"),
    ]  # fmt: skip
    assert len(set(ids)) == 3


async def test_a_defect_of_a_gate_holds_the_task_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def judges(proposal: Proposal, folder: Path, room: Room) -> str:
        raise ZeroDivisionError("oops")

    async with stage(tmp_path) as scene, serving(scene, Careful(), [Played(judges=judges)]):
        await scene.ask(0)
        await until(lambda: ended(scene, 1))
    [task] = scene.books.all()
    assert (task.stage, task.held) == ("built", "ZeroDivisionError: oops")


async def test_a_folder_that_an_earlier_life_left_half_built_is_built_anew(tmp_path: Path) -> None:
    maker = Careful()
    async with stage(tmp_path) as scene:
        left = scene.books.root / "tasks" / "n00000" / "rounds" / "0" / "task.part"
        left.mkdir(parents=True)
        (left / "half.txt").write_text("half")
        async with serving(scene, maker, []):
            await scene.ask(0)
            await until(lambda: ended(scene, 1))
    [task] = scene.books.all()
    assert not (scene.books.accepted / task.name / "half.txt").exists()


async def test_a_name_that_another_task_has_among_the_accepted_is_not_taken_from_it(tmp_path: Path) -> None:
    async with stage(tmp_path, to=str(tmp_path / "mine")) as scene, serving(scene, Careful(), []):
        name = (await Careful().propose(0)).task_id
        Words().make(7, tmp_path / "mine" / name)
        await scene.ask(0)
        await until(lambda: ended(scene, 1))
    [task] = scene.books.all()
    assert (task.stage, task.reason) == ("rejected", "name-taken")
    assert "w7" in load_task(tmp_path / "mine" / name).instruction


async def test_another_ones_rollouts_are_none_of_ours(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene, serving(scene, Careful(), []):
        bus = MemoryBus(scene.broker)
        task = str(tmp_path)
        start = RolloutStart(run_id=RUN, rollout_id="theirs", group_id="g", group_size=1, task_dir=task, harness="null")
        await bus.publish(start)
        await until(lambda: any(m.key == "theirs" for m in scene.heard))
        await scene.ask(0)
        await until(lambda: ended(scene, 1))
        await bus.close()
    assert not scene.broker.dead
    assert not list(scene.books.trials.iterdir())


async def test_what_cannot_be_made_as_it_is_configured_waits_and_says_why(tmp_path: Path) -> None:
    async with stage(tmp_path, generator="no_such.module:maker") as scene, serving(scene, None, []):
        await scene.ask(0)
        await until(lambda: ended(scene, 1))
    [task] = scene.books.all()
    assert "synth.generator 'no_such.module:maker' cannot be had" in task.held
    assert task.shared


@pytest.mark.parametrize("copied", [True, False])
async def test_a_task_whose_acceptance_could_not_be_noted_is_no_copy_of_itself_afterwards(tmp_path: Path, copied: bool) -> None:
    def judges(proposal: Proposal, folder: Path, room: Room) -> str:
        return "copy" if room.pool.accepted() else ""

    gates: list[Gate] = [Played(name="copies", compares=True, judges=judges)]
    async with stage(tmp_path) as scene:
        async with serving(scene, Careful(), gates):
            await scene.ask(0)
            await until(lambda: ended(scene, 1))
        [task] = scene.books.all()
        scene.books.save(replace(task, stage="tried", ended=0.0))
        if not copied:
            (scene.books.accepted / task.name).rename(tmp_path / "gone")
        async with serving(scene, Careful(), gates):
            await scene.ask(0)
            await until(lambda: next(scene.books.all()).over)
    assert next(scene.books.all()).stage == "accepted"
    assert load_task(scene.books.accepted / task.name).name == load_task(scene.books.round(task) / "task").name
