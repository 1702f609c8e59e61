"""The copy of a model that is served has an output head of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from services.trainer.weights.serving import HEAD, main, make_serving_copy
from shared.errors import ConfigError

EMBEDDING = "model.embed_tokens.weight"


def model(folder: Path, tied: bool | None, shards: dict[str, dict[str, torch.Tensor]]) -> Path:
    folder.mkdir()
    config = {"vocab_size": 6} if tied is None else {"vocab_size": 6, "tie_word_embeddings": tied}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    for name, weights in shards.items():
        save_file(weights, folder / name, metadata={"format": "pt"})
    return folder


def served(folder: Path) -> dict[str, torch.Tensor]:
    """The weights as a loader finds them: by the index if there is one."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return dict(load_file(folder / "model.safetensors"))
    where = json.loads(index.read_text())["weight_map"]
    return {name: load_file(folder / file)[name] for name, file in where.items()}


@pytest.mark.parametrize("tied", [True, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tied_model_gets_a_head(tmp_path: Path, tied: bool | None, dtype: torch.dtype) -> None:
    embedding, other = torch.randn(6, 3).to(dtype), torch.randn(3).to(dtype)
    source = model(tmp_path / "m", tied, {"model.safetensors": {"a.weight": other, EMBEDDING: embedding}})
    for _ in range(2):  # a second time brings it up to date
        assert make_serving_copy(source, tmp_path / "s")
    weights = served(tmp_path / "s")
    assert torch.equal(weights[HEAD], embedding)
    assert torch.equal(weights[EMBEDDING], embedding)
    assert torch.equal(weights["a.weight"], other)
    assert json.loads((tmp_path / "s" / "config.json").read_text()) == {"vocab_size": 6, "tie_word_embeddings": False}
    assert (tmp_path / "s" / "tokenizer.json").read_text() == "{}"
    assert not (tmp_path / "s" / "model.safetensors").exists()


def test_a_sharded_model_keeps_its_shards(tmp_path: Path) -> None:
    shards = {"model-1.safetensors": {EMBEDDING: torch.randn(6, 3)}, "model-2.safetensors": {"b.weight": torch.randn(2)}}
    source = model(tmp_path / "m", True, shards)
    make_serving_copy(source, tmp_path / "s")
    assert sorted(served(tmp_path / "s")) == ["b.weight", HEAD, EMBEDDING]


def test_an_untied_model_is_linked_as_it_is(tmp_path: Path) -> None:
    weights = {EMBEDDING: torch.randn(6, 3), HEAD: torch.randn(6, 3)}
    source = model(tmp_path / "m", False, {"model.safetensors": weights})
    assert not make_serving_copy(source, tmp_path / "s")
    assert sorted(f.name for f in (tmp_path / "s").iterdir()) == sorted(f.name for f in source.iterdir())
    assert all(f.is_symlink() for f in (tmp_path / "s").iterdir())
    assert torch.equal(served(tmp_path / "s")[HEAD], weights[HEAD])


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"config\.json.*a model folder in Hugging Face format is needed"):
        make_serving_copy(tmp_path / "none", tmp_path / "s")
    with pytest.raises(ConfigError, match=r"no \*\.safetensors here"):
        make_serving_copy(model(tmp_path / "empty", True, {}), tmp_path / "s")
    odd = model(tmp_path / "odd", True, {"model.safetensors": {"x": torch.ones(1)}})
    with pytest.raises(ConfigError, match="0 tensors are named like input embeddings"):
        make_serving_copy(odd, tmp_path / "s")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "none"), str(tmp_path / "s")])
    assert "Traceback" not in capsys.readouterr().err
