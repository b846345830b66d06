"""Seeded weights: every tensor that a Llama has, the same bytes for the same seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from profiler.engines.seeded_model import seeded_weights, write_seeded_model
from profiler.errors import ModelFolderError

MODEL = Path(__file__).parents[3] / "studies/models/tiny-llama"
SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 32,
    "max_position_embeddings": 64,
    "torch_dtype": "float32",
}


def next_token(weights: dict[str, np.ndarray], prompt: list[int]) -> int:
    """The most likely next token: a Llama without positions, one head's group at a time."""
    heads, groups, size = 4, 2, 4
    x = weights["model.embed_tokens.weight"][prompt].astype(np.float64)

    def norm(y: np.ndarray) -> np.ndarray:
        return y / np.sqrt((y * y).mean(axis=-1, keepdims=True) + 1e-6)

    for layer in range(2):
        part = {
            name.split(".")[-2]: array
            for name, array in weights.items()
            if name.startswith(f"model.layers.{layer}.")
        }
        y, mixed = norm(x), []
        for head in range(heads):
            group = head * groups // heads
            rows, shared = slice(head * size, head * size + size), slice(group * size, None)
            q = y @ part["q_proj"][rows].T
            k, v = (y @ part[n][shared][:size].T for n in ("k_proj", "v_proj"))
            scores = np.exp(q @ k.T / np.sqrt(size)) * np.tri(len(prompt))
            mixed.append(scores / scores.sum(axis=1, keepdims=True) @ v)
        x = x + np.concatenate(mixed, axis=1) @ part["o_proj"].T
        y = norm(x)
        gate = y @ part["gate_proj"].T
        inner = gate / (1 + np.exp(-gate)) * (y @ part["up_proj"].T)
        x = x + inner @ part["down_proj"].T
    return int(np.argmax(norm(x)[-1] @ weights["lm_head.weight"].T))


def test_outputs_depend_on_the_whole_prompt() -> None:
    weights = seeded_weights(SMALL, seed=0)
    rng = np.random.default_rng(1)
    ends = [int(rng.integers(32))] * 40
    answers = {next_token(weights, [*rng.integers(0, 32, 12).tolist(), end]) for end in ends}
    assert len(answers) > 8  # the last token, the same for all, does not decide alone


def test_the_folder_holds_what_the_configuration_names(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(SMALL))
    folders = [write_seeded_model(source, tmp_path / n, seed=3) for n in ("a", "b")]
    first, second = ((f / "model.safetensors").read_bytes() for f in folders)
    assert first == second
    weights = load_file(folders[0] / "model.safetensors")
    assert len(weights) == 3 + 2 * 9
    assert weights["lm_head.weight"].shape == (32, 16)
    assert weights["model.layers.1.self_attn.k_proj.weight"].shape == (8, 16)
    assert json.loads((folders[0] / "config.json").read_text()) == SMALL
    assert all(w.dtype == np.float32 for w in weights.values())
    other = seeded_weights(SMALL, seed=4)
    assert not np.array_equal(other["lm_head.weight"], weights["lm_head.weight"])


def test_other_models_are_refused(tmp_path: Path) -> None:
    for change in ({"architectures": ["OPTForCausalLM"]}, {"torch_dtype": "bfloat16"}):
        (tmp_path / "config.json").write_text(json.dumps({**SMALL, **change}))
        with pytest.raises(ModelFolderError, match="seeded weights are made for a Llama"):
            write_seeded_model(tmp_path, tmp_path / "out")
    with pytest.raises(ModelFolderError, match="no model folder at"):
        write_seeded_model(tmp_path / "absent", tmp_path / "out")
