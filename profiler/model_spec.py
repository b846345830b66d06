"""`ModelSpec`: the numbers of a model that sizes and figures need, read from its config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from profiler.errors import ModelFolderError
from profiler.kv_transfer import DTYPE_BYTES, KvShape, kv_shape_of

_NO_LATENT = ("minicpm3",)
"""model types with a latent in their attention, which vLLM keeps as ordinary heads all the same"""


@dataclass(frozen=True)
class ModelSpec:
    """Shape of a decoder model. Filled by `read_model_spec`."""

    name: str
    """name of the folder"""
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    """elements of one head; of the latent with MLA, as vLLM counts it"""
    hidden_size: int
    vocab_size: int
    max_model_len: int
    """tokens of prompt and output together that the model was made for"""
    dtype: str
    """as the checkpoint says; an engine may run with another"""
    dtype_bytes: int
    kv_dtype_bytes: int
    """of an element of keys and values, unless the engine is told otherwise"""
    kv_latent_size: int = 0
    """MLA: elements that stand for keys and values of all heads, per token and layer; 0: no MLA"""
    kv_index_bytes: int = 0
    """sparse attention: what the indexers keep of a token, over all layers"""

    @property
    def kv(self) -> KvShape:
        """Keys and values of one token."""
        return kv_shape_of(asdict(self))

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values of one token over all layers."""
        return self.kv.bytes_per_token

    def kv_bytes_per_token_as(self, dtype_bytes: int) -> int:
        """The same when keys and values are kept with `dtype_bytes` bytes an element."""
        return kv_shape_of({**asdict(self), "kv_dtype_bytes": dtype_bytes}).bytes_per_token


def read_model_spec(folder: Path) -> ModelSpec:
    """Read `folder`/config.json in the layout of Hugging Face transformers.

    Raises
    ------
    ModelFolderError
        The folder or its config.json is missing, is no JSON object, or lacks a field.
    """
    config = _read_config(folder)
    text = config.get("text_config", config)  # multimodal models keep the decoder's shape there
    heads = _positive(text, "num_attention_heads", folder)
    hidden = _positive(text, "hidden_size", folder)
    dtype = str(text.get("dtype") or text.get("torch_dtype") or "bfloat16")
    if dtype not in DTYPE_BYTES:
        raise ModelFolderError(
            f"{folder / 'config.json'}: dtype must be one of {', '.join(DTYPE_BYTES)}, "
            f"got {dtype!r}; correct torch_dtype"
        )
    latent = latent_size(text)
    quantization = config.get("quantization_config") or _quantization_beside(folder)
    return ModelSpec(
        name=folder.resolve().name,
        num_layers=_positive(text, "num_hidden_layers", folder),
        num_heads=heads,
        num_kv_heads=_positive(text, "num_key_value_heads", folder, default=heads),
        head_size=latent or _positive(text, "head_dim", folder, default=hidden // heads),
        hidden_size=hidden,
        vocab_size=_positive(text, "vocab_size", folder),
        max_model_len=_positive(text, "max_position_embeddings", folder),
        dtype=dtype,
        dtype_bytes=DTYPE_BYTES[dtype],
        kv_dtype_bytes=1 if _has_8_bit_kv(quantization) else DTYPE_BYTES[dtype],
        kv_latent_size=latent,
        kv_index_bytes=index_cache_bytes(text),
    )


def latent_size(text: Mapping[str, Any]) -> int:
    """Elements of the latent of MLA, its position part included; 0 without MLA.

    Mirrors `is_deepseek_mla` and `get_head_size` of vLLM 0.32's
    `vllm/transformers_utils/model_arch_config_convertor.py`.
    """
    rank = text.get("kv_lora_rank")
    if not isinstance(rank, int) or text.get("model_type") in _NO_LATENT:
        return 0
    return rank + int(text.get("qk_rope_head_dim") or 0)


def index_cache_bytes(text: Mapping[str, Any]) -> int:
    """Bytes per token, over all layers, that the indexers of sparse attention (DeepSeek V3.2) keep:
    8-bit keys, and a 4-byte scale for each 128 elements. Some layers may use the choice of an
    earlier one and keep nothing.

    Mirrors `Indexer` and `DeepseekV2MLAAttention` of vLLM 0.32's
    `vllm/model_executor/models/deepseek_v2.py`.
    """
    size = int(text.get("index_head_dim") or 0)
    layers = int(text.get("num_hidden_layers") or 0)
    pattern = text.get("index_topk_pattern")
    if pattern is not None:
        own = layers - list(pattern[:layers]).count("S")
    else:
        every, offset = text.get("index_topk_freq", 1), text.get("index_skip_topk_offset", 2)
        own = sum(max(i - offset + 1, 0) % every == 0 for i in range(layers))
    return own * (size + size // 128 * 4)


def _quantization_beside(folder: Path) -> Any:
    """What NVIDIA's ModelOpt writes beside config.json."""
    try:
        found = json.loads((folder / "hf_quant_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found.get("quantization") if isinstance(found, dict) else None


def _has_8_bit_kv(quantization: Any) -> bool:
    """Whether the checkpoint asks for an 8-bit cache (`get_kv_cache_quant_algo_string` of vLLM
    0.32's `vllm/utils/torch_utils.py`)."""
    if not isinstance(quantization, dict):
        return False
    scheme = quantization.get("kv_cache_scheme") or quantization.get("kv_cache_quant_algo")
    if isinstance(scheme, dict):
        return bool(scheme.get("num_bits") == 8)
    return str(scheme).lower().startswith("fp8")


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not folder.is_dir():
        raise ModelFolderError(
            f"no model folder at {folder}; give a folder that holds a config.json"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFolderError(
            f"{folder} has no config.json; give the folder of a Hugging Face model"
        ) from None
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path} is no readable JSON ({error}); fetch it again") from error
    if not isinstance(config, dict) or not isinstance(config.get("text_config", {}), dict):
        raise ModelFolderError(f"{path} must hold a JSON object; fetch it again")
    return config


def _positive(
    config: dict[str, Any], name: str, folder: Path, *, default: int | None = None
) -> int:
    value = config.get(name)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelFolderError(
            f"{folder / 'config.json'}: {name} must be a whole number above 0, got {value!r}; "
            "correct the file"
        )
    return value
