"""REINFORCE in torch on docs/groups.md: ``python -m examples.own_trainer MODEL OUT (RUN_FOLDER | GROUPS.jsonl) COUNT``."""

import asyncio
import sys
from pathlib import Path

import msgspec
import torch
from transformers import AutoModelForCausalLM

from shared.bus.nats import connect_nats
from shared.config import load_config
from shared.events import GroupCompleted, Message, Trajectory
from shared.packing import unpack_ids, unpack_mask
from shared.store.blobs import Blobs
from shared.store.connect import connect, login_of


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer, group: list[Trajectory]) -> None:
    """One step on ``-mean_i A_i mean_t log p(token_t)``, where A is (reward - mean) / deviation over the group."""
    rewards, loss = torch.tensor([t.reward for t in group]), torch.zeros((), requires_grad=True)
    for trajectory, advantage in zip(group, (rewards - rewards.mean()) / (rewards.std() + 1e-6), strict=True):
        for row in trajectory.rows:
            ids, mask = torch.tensor(unpack_ids(row.ids)), torch.tensor(unpack_mask(row.response_mask))
            logps = model(ids[None]).logits[0, :-1].log_softmax(-1).gather(-1, ids[1:, None])[:, 0]
            loss = loss - advantage * (logps * mask[1:]).sum() / trajectory.tokens.trained / len(group)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    sys.stdout.write(f"{len(group)} rewards, mean {rewards.mean():.3f}, loss {loss.item():+.4f}\n")


async def follow(run: Path, count: int, model: torch.nn.Module, adam: torch.optim.Optimizer) -> None:
    """Learns from `count` groups of a run, or a few more, as they are there or come; one that comes twice has one id."""
    config = load_config(run / "config.json")
    bus = await connect_nats(config.bus, config.run.id, "trainer")
    store = connect(config.store.url, login_of(config.store.keys, "trainer"), config.store.timeout_s)
    blobs, load = Blobs(store, config.run.id), msgspec.json.Decoder(list[Trajectory]).decode
    seen, learned = set[str](), asyncio.Semaphore(0)

    async def on_group(group: Message) -> None:  # to return is to acknowledge; what raises comes again
        if isinstance(group, GroupCompleted) and group.purpose == "train" and group.group_id not in seen:
            await asyncio.to_thread(learn, model, adam, load(await blobs.get(group.ref)) if group.ref else group.trajectories)
            seen.add(group.group_id)
            learned.release()

    await bus.consume("own-trainer", [GroupCompleted], on_group, run_id=config.run.id)
    await asyncio.gather(*(learned.acquire() for _ in range(count)))
    await asyncio.gather(bus.close(), store.aclose())


if __name__ == "__main__":
    made, source = AutoModelForCausalLM.from_pretrained(sys.argv[1]), Path(sys.argv[3])
    adam = torch.optim.AdamW(made.parameters(), lr=1e-4, weight_decay=0.0)
    if source.is_dir():
        asyncio.run(follow(source, int(sys.argv[4]), made, adam))
    for line in source.read_bytes().splitlines()[: int(sys.argv[4])] if source.is_file() else ():
        learn(made, adam, msgspec.json.decode(line, type=GroupCompleted).trajectories)
    made.save_pretrained(sys.argv[2])
