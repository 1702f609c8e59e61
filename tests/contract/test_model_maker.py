"""Tasks made by models behind a real protocol: proposed, built, mended; and what becomes of answers that are no tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.synth.model import Verdict
from services.synth.models.answers import Answers
from services.synth.models.budget import Budget
from services.synth.models.client import Models
from services.synth.models.maker import ModelMaker
from shared.config import EndpointConfig, ModelsConfig, SynthConfig
from shared.errors import ConfigError, MakerError
from shared.task import folder_digest, load_task
from tests.scripted_builder import SOLVE, TEST, built, good, idea, plain_base
from tests.scripted_models import KEY, Act, Asked, ScriptedModels, said

pytestmark = [pytest.mark.real, pytest.mark.slow]
FAILED = Verdict(
    gate="null", outcome="failed", reason="null-passes", detail="doing nothing gives 1", evidence={"rewards": [1.0]}
)


@pytest.fixture(params=["openai", "anthropic"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedModels]:
    made = ScriptedModels(good, request.param)
    await made.start()
    yield made
    await made.stop()


def settings(server: ScriptedModels, **models: Any) -> SynthConfig:
    url = f"{server.url}/v1" if server.api == "openai" else server.url
    builder = EndpointConfig(model="m-1", api=server.api, base_url=url, key_env="THE_KEY")
    return SynthConfig(domains=("claw",), seed=3, models=ModelsConfig(**{"builder": builder} | models))


def maker_of(server: ScriptedModels, folder: Path, **changes: Any) -> ModelMaker:
    wanted = settings(server, **changes)
    models = Models(wanted.models, Answers(folder / "answers"), Budget(0, 0), "run", {"THE_KEY": KEY})
    return ModelMaker(wanted, models, plain_base)


async def test_a_task_is_proposed_built_and_mended_and_is_the_same_after_a_restart(
    server: ScriptedModels, tmp_path: Path
) -> None:
    digests = []
    for life in ("first", "second"):
        maker, folder = maker_of(server, tmp_path), tmp_path / life
        proposal = await maker.propose(4)
        await maker.build(proposal, folder)
        assert await maker.refine(proposal, folder, FAILED, 1)
        digests.append((msgspec.json.encode(proposal), folder_digest(folder)))
    assert digests[0] == digests[1]
    assert len(server.asked) == 3
    assert (proposal.domain, proposal.title) == ("claw", "Copy word 4")
    assert (proposal.lineage.generator, len(proposal.lineage.calls), set(proposal.lineage.prompts)) == (
        "models", 1, {"propose", "build", "refine"},
    )  # fmt: skip
    task = load_task(tmp_path / "first")
    assert (task.name, task.metadata["family"]) == (f"claw/{proposal.task_id}", proposal.task_id)
    assert (tmp_path / "first" / "tests" / "test.sh").read_text() == TEST
    refining = server.asked[-1].prompt
    for shown in ("null-passes", "doing nothing gives 1", '"rewards"', "### tests/wanted", SOLVE.rstrip()):
        assert shown in refining


async def test_what_is_put_where_no_task_has_files_is_asked_for_once_more_and_then_given_up(
    server: ScriptedModels, tmp_path: Path
) -> None:
    wrong = built(0)
    wrong["files"].append({"path": "../../etc/cron.d/x", "content": "* * * * * root true"})

    def script(asked: Asked) -> Act:
        return said(wrong) if "instruction" in (asked.schema or {})["properties"] else good(asked)

    server.script = script
    maker = maker_of(server, tmp_path)
    proposal = await maker.propose(0)
    with pytest.raises(MakerError, match=r"'\.\./\.\./etc/cron\.d/x' leads out of the task"):
        await maker.build(proposal, tmp_path / "task")
    assert not (tmp_path / "task").exists()
    assert "'../../etc/cron.d/x' leads out of the task" in server.asked[-1].text


@pytest.mark.parametrize(
    ("mended", "why"),
    [
        ({"removed": ["tests/test.sh"]}, "tests/test.sh is needed"),
        ({"removed": ["../x"]}, "leads out"),
        ({"files": [{"path": "task.toml", "content": ""}]}, "is not in environment"),
        ({"files": [{"path": "environment/Dockerfile", "content": "FROM x"}]}, "belongs to the environment base"),
        ({"files": [{"path": "tests/wanted/x", "content": "y"}]}, "does not fit the task"),
    ],
)
async def test_a_change_that_takes_a_task_apart_is_turned_down(
    server: ScriptedModels, tmp_path: Path, mended: dict[str, Any], why: str
) -> None:
    maker, folder = maker_of(server, tmp_path), tmp_path / "task"
    proposal = await maker.propose(0)
    await maker.build(proposal, folder)
    before = folder_digest(folder)
    server.script = lambda _: said({"cause": "", "files": [], "removed": []} | mended)
    with pytest.raises(MakerError, match=why):
        await maker.refine(proposal, folder, FAILED, 1)
    assert folder_digest(folder) == before


async def test_a_refiner_that_changes_nothing_is_one_that_cannot(server: ScriptedModels, tmp_path: Path) -> None:
    maker, folder = maker_of(server, tmp_path), tmp_path / "task"
    proposal = await maker.propose(0)
    await maker.build(proposal, folder)
    server.script = lambda _: said({"cause": "none", "files": [], "removed": []})
    assert not await maker.refine(proposal, folder, FAILED, 1)


async def test_ideas_are_grounded_in_seeds_and_tasks_of_one_seed_are_a_family(server: ScriptedModels, tmp_path: Path) -> None:
    (tmp_path / "ideas.txt").write_text("a bicycle shop\na school\n")
    maker = maker_of(server, tmp_path, seeds=str(tmp_path / "ideas.txt"), personas=["a smith"], skills=["adding"])
    first, second, third = [await maker.propose(n) for n in range(3)]
    assert (first.family, second.family, third.family) == ("ideas-0", "ideas-1", "ideas-0")
    assert first.lineage.source.startswith("scenario ideas-0 sha256:")
    for shown in ("a bicycle shop", "a smith", "adding", "A shell."):
        assert shown in server.asked[0].prompt


async def test_prompts_of_ones_own_are_used_and_stand_in_the_lineage(server: ScriptedModels, tmp_path: Path) -> None:
    own = tmp_path / "prompts"
    own.mkdir()
    (own / "propose.md").write_text("Say number {{number}} of a series for {{persona}}.")
    plain, changed = maker_of(server, tmp_path), maker_of(server, tmp_path, prompts=str(own))
    assert (await plain.propose(1)).lineage.prompts != (await changed.propose(1)).lineage.prompts
    assert server.asked[-1].prompt.startswith("Say number 1 of a series for ")


async def test_an_idea_without_a_title_is_none(server: ScriptedModels, tmp_path: Path) -> None:
    server.script = lambda _: said(idea(0) | {"title": " "})
    with pytest.raises(MakerError, match="no title or no brief"):
        await maker_of(server, tmp_path).propose(0)


def test_without_a_model_there_is_no_maker(server: ScriptedModels, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs a builder: set synth\.models\.builder\.model"):
        maker_of(server, tmp_path, builder=EndpointConfig())
