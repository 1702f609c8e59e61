from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shared.config import load_config, resolve
from shared.errors import ConfigError


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "openforge.toml"
    file.write_text(text)
    return file


def test_set_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = write(tmp_path, "[trainer]\nsteps = 3\nn = 4\noptim.lr = 0.1\n")
    env = {"OPENFORGE__TRAINER__STEPS": "5", "OPENFORGE__TRAINER__N": "6", "UNRELATED": "x"}
    resolved = resolve(file, ["trainer.steps=7"], env)
    trainer = resolved.config.trainer
    assert (trainer.steps, trainer.n, trainer.optim.lr, trainer.groups) == (7, 6, 0.1, 8)
    origins = {name: origin for name, _, origin in resolved.items()}
    assert origins["trainer.steps"] == "--set"
    assert origins["trainer.n"] == "environment OPENFORGE__TRAINER__N"
    assert origins["trainer.optim.lr"] == str(file)
    assert origins["trainer.groups"] == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[trainer]\nstepz = 1\n", "did you mean 'trainer.steps'"),
        ("[trainr]\nsteps = 1\n", "did you mean 'trainer'"),
        ("[trainer]\nsteps = 'many'\n", "trainer.steps"),
        ("[trainer]\nn = 1\n", "trainer.n"),
        ("[orchestrator]\nsandbox = 'jail'\n", "orchestrator.sandbox"),
        ("[orchestrator.kubernetes]\nnode_selector = ['gpu']\n", "orchestrator.kubernetes.node_selector"),
        ("[orchestrator.kubernetes]\ntolerations = ['gpu:Never']\n", "orchestrator.kubernetes.tolerations"),
        ("[orchestrator]\nbackend = 'dockr'\n", r"\.toml: orchestrator\.backend: 'dockr' is none of 'local', 'docker'"),
        ("[synth]\ndomains = ['claw', 'office']\n", r"\.toml: synth\.domains\[1\]: 'office' is none of 'claw', 'browser'"),
        ("[trainer\n", "not valid TOML"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(write(tmp_path, text), [], {})


def test_a_missing_file_and_a_malformed_set_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        resolve(tmp_path / "none.toml", [], {})
    with pytest.raises(ConfigError, match=r"section\.key=value"):
        resolve(None, ["trainer.steps"], {})


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    config = resolve(write(tmp_path, "[tasks]\ntrain = 'tasks/train'\n"), [], {}).config
    assert config.tasks.train == str(tmp_path / "tasks" / "train")


def test_texts_from_outside_keep_strings_as_they_are() -> None:
    assert resolve(None, ["run.id=007"], {}).config.run.id == "007"


def test_the_resolved_file_is_read_back_and_garbage_is_not(tmp_path: Path) -> None:
    config = resolve(None, ["run.seed=4"], {}).config
    file = tmp_path / "config.json"
    file.write_bytes(msgspec.json.encode(config))
    assert load_config(file) == config
    file.write_bytes(b"{")
    with pytest.raises(ConfigError):
        load_config(file)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["rollout_is_threshold=5_2"], "a positive number, or lower_upper"),
        (["rollout_is_threshold=0"], "a positive number"),
        (["rollout_rs=seq_max_k1", "rollout_rs_threshold=2"], "'seq_max_k1' is none of none, token_k1"),
        (["rollout_rs=token_k1"], "rollout_rs_threshold of token_k1 is ''"),
        (["rollout_rs=token_k2", "rollout_rs_threshold=0.5_2"], "it takes a positive number"),
        (["rollout_rs=token_k1,seq_sum_k2", "rollout_rs_threshold=1,2,3"], "3 bounds for 2 tests"),
        (["bypass_mode=true"], "set rollout_is to none"),
    ],
)
def test_a_correction_that_verl_would_not_take_is_refused(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(None, [f"trainer.algorithm.rollout_correction.{s}" for s in settings], {})


def test_a_pair_of_bounds_is_no_number_with_an_underscore() -> None:
    """TOML reads 0.5_2 as 0.52."""
    texts = ["rollout_is_threshold=0.5_2", "rollout_rs=token_k1, seq_max_k2", "rollout_rs_threshold=0.5_2, 3"]
    found = resolve(None, [f"trainer.algorithm.rollout_correction.{t}" for t in texts], {}).config.trainer.algorithm
    correction = found.rollout_correction
    assert (correction.rollout_is_threshold, correction.tests) == ("0.5_2", ["token_k1", "seq_max_k2"])
    assert correction.rollout_rs_threshold == "0.5_2, 3"


def test_paths_in_lists_are_of_the_folder_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "synth.toml"
    file.write_text('[synth.gates]\nheldout = ["tasks/eval", "/far/away"]\n')
    assert resolve(file, env={}).config.synth.gates.heldout == [str(tmp_path / "tasks/eval"), "/far/away"]
