"""Makes tasks by models, several at once: URL, FOLDER, COUNT. Started by test_synth_answers.py, to be killed."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from services.synth.model import Verdict
from services.synth.models.answers import Answers
from services.synth.models.budget import Budget
from services.synth.models.client import Models
from services.synth.models.maker import ModelMaker
from shared.config import EndpointConfig, ModelsConfig, SynthConfig
from tests.scripted_builder import plain_base

FAILED = Verdict(gate="null", outcome="failed", reason="null-passes", detail="doing nothing gives 1")


async def main(url: str, root: Path, count: int) -> None:
    builder = EndpointConfig(
        model="m-1", base_url=f"{url}/v1", key_env="THE_KEY", usd_per_mtok_in=1.0, usd_per_mtok_out=4.0, concurrent=3
    )
    settings = SynthConfig(domains=("claw",), models=ModelsConfig(builder=builder))
    models = Models(settings.models, Answers(root / "answers"), Budget(10.0, 1000), "run")
    maker = ModelMaker(settings, models, plain_base)
    await asyncio.gather(*(one(maker, root / "tasks" / str(number), number) for number in range(count)))
    (root / "paid").write_text(f"{models.budget.calls} calls, ${models.budget.usd:.4f}")
    await models.close()


async def one(maker: ModelMaker, folder: Path, number: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    proposal = await maker.propose(number)
    await maker.build(proposal, folder)
    await maker.refine(proposal, folder, FAILED, 1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
