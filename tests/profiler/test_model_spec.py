"""Reading a model's config.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler.errors import ModelFolderError
from profiler.model_spec import read_model_spec

_CONFIG = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "hidden_size": 256,
    "vocab_size": 4096,
    "max_position_embeddings": 16384,
    "torch_dtype": "float32",
}


def _write(folder: Path, config: object) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_shape_and_kv_bytes(tmp_path: Path) -> None:
    spec = read_model_spec(_write(tmp_path, {**_CONFIG, "num_key_value_heads": 4}))
    assert (spec.num_kv_heads, spec.head_size) == (4, 32)
    assert spec.kv_bytes_per_token == 2 * 4 * 4 * 32 * 4
    assert spec.kv_bytes_per_token_as(2) == spec.kv_bytes_per_token // 2


def test_what_may_be_left_out(tmp_path: Path) -> None:
    spec = read_model_spec(_write(tmp_path, {"text_config": {**_CONFIG, "head_dim": 64}}))
    assert (spec.num_kv_heads, spec.head_size) == (8, 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": None}, "vocab_size must be a whole number above 0"),
        ({"num_hidden_layers": -1}, "num_hidden_layers must be"),
        ({"num_attention_heads": "8"}, "num_attention_heads must be"),
        ({"torch_dtype": "int3"}, "dtype must be one of"),
        ({"text_config": 3}, "must hold a JSON object"),
    ],
)
def test_a_bad_field_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(ModelFolderError, match=message):
        read_model_spec(_write(tmp_path, {**_CONFIG, **change}))


def test_a_missing_folder_or_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="no model folder at"):
        read_model_spec(tmp_path / "nowhere")
    with pytest.raises(ModelFolderError, match=r"has no config\.json"):
        read_model_spec(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelFolderError, match="no readable JSON"):
        read_model_spec(tmp_path)
