"""What making tasks needs of the machine is asked for before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from services.dev.synth import here
from services.synth.pool import TaskPool
from shared.config import Config, OrchestratorConfig, RunConfig, SynthConfig, TasksConfig
from shared.config.synth import GatesConfig
from shared.errors import ConfigError, TaskError

BARE = Config(synth=SynthConfig(domains=("claw", "computer")))


@pytest.fixture
def no_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_OF_DESKTOPS", {"Xvfb": lambda: False, "xdotool": lambda: True})


@pytest.mark.usefixtures("no_desktop")
def test_tasks_of_desktops_are_not_begun_with_where_none_could_be_tried() -> None:
    with pytest.raises(
        ConfigError, match=r"lacks Xvfb: apt-get install .*, or leave them out: --set 'synth.domains=\[\"claw\"\]'"
    ):
        here.check_programs(BARE)


@pytest.mark.usefixtures("no_desktop")
@pytest.mark.parametrize(
    "config",
    [
        replace(BARE, orchestrator=OrchestratorConfig(backend="docker")),
        replace(BARE, synth=SynthConfig(domains=("claw", "browser"))),
        replace(BARE, synth=SynthConfig(families=["mail-amount"])),
        replace(BARE, synth=SynthConfig(generator="my:maker")),
    ],
)
def test_nothing_is_asked_for_that_the_tasks_do_not_need(config: Config) -> None:
    here.check_programs(config)


def test_a_cluster_that_builds_no_images_is_refused_but_for_tasks_of_ones_own() -> None:
    cluster = OrchestratorConfig(backend="kubernetes")
    with pytest.raises(ConfigError, match=r"builds no images.*orchestrator\.backend=docker.*scripts/task-images\.sh"):
        here.check_images(Config(orchestrator=cluster))
    here.check_images(Config(orchestrator=cluster, synth=SynthConfig(generator="my:maker")))
    here.check_images(Config(orchestrator=replace(cluster, backend="docker")))


def test_a_folder_that_cannot_be_made_is_told_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"synth\.to: .*Not a directory; pass --set synth\.to=FOLDER"):
        here.check_place(Config(run=RunConfig(id="r"), synth=SynthConfig(to=str(tmp_path / "file" / "made"))))


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (Config(synth=SynthConfig(gates=GatesConfig(heldout=["/no/such"]))), "synth.gates.heldout"),
        (Config(synth=SynthConfig(gates=GatesConfig(pool=["/no/such"]))), "synth.gates.pool"),
        (Config(tasks=TasksConfig(heldout="/no/such")), "tasks.heldout"),
    ],
)
def test_a_set_of_tasks_that_is_not_there_is_told_with_the_setting_that_names_it(
    config: Config, setting: str, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=f"{setting}: /no/such: no such folder of tasks"):
        TaskPool(config, tmp_path)
