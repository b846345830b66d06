"""How many bytes of keys and values move from a prefill engine to a decode engine.

Rules of vLLM 0.32's NIXL connector (`vllm/distributed/kv_transfer/kv_connector/`):

* A rank holds `max(1, num_kv_heads // tp)` KV heads (`utils.py`, `TransferTopology.__post_init__`;
  `vllm/config/model.py`, `get_num_kv_heads`): beyond one head per rank, heads are replicated.
* Each decode rank reads the heads that it holds, each head once, from the prefill ranks that hold
  them (`v1/nixl/tp_mapping.py`, `compute_tp_mapping`). With more decode ranks than prefill ranks,
  `decode_tp / prefill_tp` of them read from the same prefill rank; with fewer, a decode rank reads
  from several, and of prefill ranks that hold the same head from the first.
* A latent of MLA is one head that every rank holds (`is_mla`): a decode rank reads it from one
  prefill rank, whole.
* One size must divide the other (`utils.py`, `TransferTopology.tp_ratio`).
* Whole blocks are moved (`v1/nixl/pull_worker.py`, `_read_blocks`). The simulator rounds a prompt
  up to the decode engine's blocks. Where the prefill engine has smaller ones, vLLM leaves out the
  end of the last block (`v1/nixl/base_worker.py`, `_map_block_ids_for_block_size_ratio`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profiler.errors import LinkError

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}

_SPARSE_LATENT_BYTES = 656
"""of one token in one layer, with sparse attention and an 8-bit cache: latent, position part and
scales in one (`fp8_ds_mla` of `vllm/model_executor/layers/attention/mla_attention.py`)"""


@dataclass(frozen=True)
class KvShape:
    """Keys and values of one token. Filled by `kv_shape_of`."""

    num_layers: int
    num_kv_heads: int
    """1 where a latent stands for all heads (MLA)"""
    head_bytes: int
    """of one KV head, or of the latent, over all layers"""

    @property
    def bytes_per_token(self) -> int:
        """Of all heads over all layers, each held once."""
        return self.num_kv_heads * self.head_bytes


def kv_shape_of(model_shape: Mapping[str, Any]) -> KvShape:
    """From the `model_shape` of a profile's facts, or the fields of a `ModelSpec`.

    Every layer is taken to keep the whole context: for models with sliding windows or linear
    attention the result is an upper bound.

    Raises
    ------
    LinkError
        A field is missing.
    """
    try:
        layers = int(model_shape["num_layers"])
        each = int(model_shape.get("kv_dtype_bytes") or DTYPE_BYTES[model_shape["dtype"]])
        latent = int(model_shape.get("kv_latent_size") or 0)
        if not latent:
            head = 2 * layers * int(model_shape["head_size"]) * each
            return KvShape(layers, int(model_shape["num_kv_heads"]), head)
    except KeyError as error:
        raise LinkError(
            f"the shape of the model lacks {error}, so that the size of its KV is not known; "
            "profile again"
        ) from error
    index = int(model_shape.get("kv_index_bytes") or 0)
    in_layer = _SPARSE_LATENT_BYTES if index and each == 1 else latent * each
    return KvShape(layers, 1, layers * in_layer + index)


def transfer_bytes_per_token(kv: KvShape, *, prefill_tp: int = 1, decode_tp: int = 1) -> int:
    """Bytes per prompt token through the busiest link, where every GPU has a link of its own.

    Parameters
    ----------
    kv
        Of the model, in the number format of the cache.
    prefill_tp, decode_tp
        Tensor-parallel ranks of a prefill and of a decode replica.

    Returns
    -------
    int
        The larger one of what a decode rank receives and what a prefill rank sends.

    Raises
    ------
    LinkError
        vLLM cannot move KV between these sizes.
    """
    for name, tp in (("prefill", prefill_tp), ("decode", decode_tp)):
        if tp < 1 or (tp % kv.num_kv_heads and kv.num_kv_heads % tp):
            raise LinkError(
                f"{name} tp must divide the {kv.num_kv_heads} KV heads or be a multiple of them, "
                f"got {tp}; give such a size"
            )
    if prefill_tp % decode_tp and decode_tp % prefill_tp:
        raise LinkError(
            f"of prefill tp and decode tp one must divide the other, got {prefill_tp} and "
            f"{decode_tp}; change one of them"
        )
    received = max(1, kv.num_kv_heads // decode_tp) * kv.head_bytes
    return received * max(1, decode_tp // prefill_tp)
