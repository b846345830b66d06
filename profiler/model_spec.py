"""`ModelSpec`: the numbers of a model that sizes and figures need, read from its config.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import ModelFolderError

_DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


@dataclass(frozen=True)
class ModelSpec:
    """Shape of a decoder model. Filled by `read_model_spec`."""

    name: str
    """name of the folder"""
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    hidden_size: int
    vocab_size: int
    max_model_len: int
    """tokens of prompt and output together that the model was made for"""
    dtype: str
    """as the checkpoint says; an engine may run with another"""
    dtype_bytes: int

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values of one token over all layers."""
        return self.kv_bytes_per_token_as(self.dtype_bytes)

    def kv_bytes_per_token_as(self, dtype_bytes: int) -> int:
        """The same when keys and values are kept with `dtype_bytes` bytes an element."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_size * dtype_bytes


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
    if dtype not in _DTYPE_BYTES:
        raise ModelFolderError(
            f"{folder / 'config.json'}: dtype must be one of {', '.join(_DTYPE_BYTES)}, "
            f"got {dtype!r}; correct torch_dtype"
        )
    return ModelSpec(
        name=folder.resolve().name,
        num_layers=_positive(text, "num_hidden_layers", folder),
        num_heads=heads,
        num_kv_heads=_positive(text, "num_key_value_heads", folder, default=heads),
        head_size=_positive(text, "head_dim", folder, default=hidden // heads),
        hidden_size=hidden,
        vocab_size=_positive(text, "vocab_size", folder),
        max_model_len=_positive(text, "max_position_embeddings", folder),
        dtype=dtype,
        dtype_bytes=_DTYPE_BYTES[dtype],
    )


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
