"""What an accepted task says of where it comes from: every answer of a model that shaped it, in order, also over a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from services.synth.gates.copies import Same
from services.synth.model import Proposal, Verdict
from services.synth.models.answers import Answers
from services.synth.models.budget import Budget
from services.synth.models.client import Models
from services.synth.models.judge import ModelJudge
from services.synth.models.maker import ModelMaker
from services.synth.ports import Room
from shared.config import EndpointConfig, ModelsConfig, SynthConfig
from tests.scripted_builder import SPOILT, built, good, number_of, plain_base
from tests.scripted_models import KEY, Act, Asked, ScriptedModels, said
from tests.unit.synth.house import Stage, serving, stage
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow]


def spoiling(asked: Asked) -> Act:
    """The task is built with a check that gives 1 for nothing, which the judge dislikes."""
    fields = asked.schema["properties"] if asked.schema else {}
    if "same" in fields:
        return said({"why": "as it is", "same": SPOILT in asked.prompt})
    return said(built(number_of(asked), SPOILT)) if "instruction" in fields else good(asked)


@dataclass
class Reviewed:
    """A gate that asks a model; `down` is a defect of ours before it does."""

    models: Models
    down: bool = False
    name: str = "reviewed"
    compares: bool = False

    async def judge(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        if self.down:
            raise RuntimeError("not now")
        test = (folder / "tests" / "test.sh").read_text()
        same = (await ModelJudge(self.models).ask(f"Is the check of {proposal.title} bad?\n{test}", Same)).same
        return Verdict(gate=self.name, outcome="failed" if same else "passed", reason="bad" if same else "")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedModels]:
    made = ScriptedModels(spoiling)
    await made.start()
    yield made
    await made.stop()


@asynccontextmanager
async def life(scene: Stage, server: ScriptedModels, answers: Path, *, down: bool) -> AsyncIterator[None]:
    """A synth process that is asked for a task."""
    one = EndpointConfig(model="m-1", base_url=f"{server.url}/v1", key_env="THE_KEY")
    settings = SynthConfig(domains=("claw",), models=ModelsConfig(builder=one, judge=replace(one, model="m-2")))
    models = Models(settings.models, Answers(answers), Budget(0, 0), "run", {"THE_KEY": KEY})
    async with serving(scene, ModelMaker(settings, models, plain_base), [Reviewed(models, down)]):
        await scene.ask(0)
        yield


async def test_an_accepted_task_names_every_answer_that_shaped_it_in_the_order_in_which_they_were_given(
    server: ScriptedModels, tmp_path: Path
) -> None:
    async with stage(tmp_path) as scene:
        async with life(scene, server, tmp_path / "answers", down=True):
            await until(lambda: any(task.held for task in scene.books.all()), 60)
        [waits] = scene.books.all()
        scene.books.save(
            replace(waits, stage="proposed", held="")
        )  # as if it was killed before it noted that the folder is there
        async with life(scene, server, tmp_path / "answers", down=False):
            await until(lambda: all(task.stage == "built" for task in scene.books.all()), 60)
            await scene.ask(0)  # the bus has had the message of the first life
            await until(lambda: all(task.over for task in scene.books.all()), 60)
        [task] = scene.books.all()
        known = scene.books.known_of(task.name)
    assert known is not None, task
    answers = Answers(tmp_path / "answers")
    given = [kept.role for key in known.proposal.lineage.calls if (kept := answers.read(key))]
    assert given == ["proposer", "builder", "judge", "refiner", "judge"]
    assert len(server.answered) == len(given)
