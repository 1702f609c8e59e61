"""Images and the like that rows refer to: they are where the journal is, for as long as it may need them."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.trainer.journal.beside import BesideFiles
from services.trainer.journal.journal import JournalError
from shared.events import Media, RolloutStart, Row
from tests.unit.trainer.twins import MakeWorld, World, row, stopped

STEPS: dict[str, Any] = {"steps": 3, "save_freq": 1, "eval_episodes": 0, "groups": 2}


def seen_by(group: str) -> bytes:
    """The image that the agents of a group look at."""
    return f"image of {group[-6:]}".encode()


def hash_of(group: str) -> str:
    return hashlib.sha256(seen_by(group)).hexdigest()


def with_image(start: RolloutStart) -> list[Row]:
    media = [Media(sha256=hash_of(start.group_id), start=0, length=1)]
    return [msgspec.structs.replace(row(), media=media)]


async def looking(make_world: MakeWorld, *steps: int, **settings: Any) -> World:
    """A world whose agents look at images; its store has those of the groups of some steps."""
    world = await make_world(**STEPS | settings)
    world.rollouts.rows = with_image
    for name in (f"s{step}-g0{n}" for step in steps for n in range(2)):
        await world.blobs.put(seen_by(name))
    return world


async def test_images_of_steps_that_are_learned_again_are_there_though_the_store_was_wiped(
    make_world: MakeWorld, tmp_path: Path
) -> None:
    whole = await looking(make_world, 1, 2, 3, save_freq=0)
    assert (await whole.run()).ok
    await whole.service.stop()
    shutil.rmtree(tmp_path / "runs")
    await stopped(await looking(make_world, 1, 2, 3, save_freq=0), 2)
    world = await looking(make_world, 3, save_freq=0)
    assert (await world.run()).ok
    taught = world.learners[-1]
    assert taught.taught == whole.learners[-1].taught
    assert [s.pictures for s in taught.samples[1]] == [[seen_by(f"s2-g0{n}")] for n in range(2) for _ in range(4)]


async def test_images_are_kept_as_long_as_a_checkpoint_may_need_them(make_world: MakeWorld) -> None:
    world = await looking(make_world, 1, 2, 3)
    assert (await world.run()).ok
    kept = {file.name for file in (world.folder / "journal" / "blobs").iterdir()}
    assert kept == {hash_of(f"s3-g0{n}") for n in range(2)}  # beyond the second newest checkpoint


async def test_a_group_whose_image_is_gone_is_replaced(make_world: MakeWorld) -> None:
    world = await looking(make_world, steps=1)
    world.rollouts.rows = lambda start: with_image(start) if start.group_id.endswith("s1-g01") else []
    assert (await world.run()).ok
    assert world.summary["discard_reasons"] == {"FidelityError": 1}
    assert world.summary["groups_completed"] == 2


async def test_an_image_that_was_damaged_ends_the_run_with_its_name(make_world: MakeWorld) -> None:
    first = await stopped(await looking(make_world, 1, 2, save_freq=0), 1)
    file = first.folder / "journal" / "blobs" / hash_of("s1-g01")
    file.write_bytes(b"something else")
    world = await looking(make_world, save_freq=0)
    assert f"{file}: damaged" in (await world.run()).error


async def test_what_is_needed_stays_and_all_else_goes(tmp_path: Path) -> None:
    files = BesideFiles(tmp_path / "blobs")
    assert not files.any()
    await files.keep({})
    assert not files.any()
    await files.keep({hash_of(name): seen_by(name) for name in ("s1-g00", "s1-g01")})
    (tmp_path / "blobs" / ".part-x").touch()  # of a trainer that was killed
    files.drop_all_but({hash_of("s1-g01")})
    assert [file.name for file in (tmp_path / "blobs").iterdir()] == [hash_of("s1-g01")]
    assert files.read(hash_of("s1-g01")) == seen_by("s1-g01")
    with pytest.raises(JournalError, match="No such file"):
        files.read(hash_of("s1-g00"))


async def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(JournalError, match="cannot be written: No space left on device; free some space"):
        await BesideFiles(tmp_path / "blobs").keep({hash_of("s1-g00"): seen_by("s1-g00")})
