"""How many bytes of KV move between engines of unlike tensor-parallel sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import LinkError
from profiler.kv_transfer import KvShape, kv_shape_of, transfer_bytes_per_token
from profiler.model_spec import index_cache_bytes, read_model_spec

LLAMA = {
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}
LLAMA_8B = {**LLAMA, "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}
LLAMA_70B = {**LLAMA, "num_hidden_layers": 80, "num_attention_heads": 64, "hidden_size": 8192}
DEEPSEEK = {
    **LLAMA,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "model_type": "deepseek_v3",
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
FP8_KV = {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}}
SPARSE = {"index_head_dim": 128, "index_topk": 2048}

# By hand: 32 layers x 8 heads x 128 elements x 2 (keys, values) x 2 bytes, and so on.
PER_TOKEN: list[tuple[dict[str, Any], int]] = [
    (LLAMA_8B, 131_072),
    (LLAMA_70B, 327_680),
    ({**LLAMA_70B, **FP8_KV}, 163_840),
    (DEEPSEEK, 61 * 576 * 2),
    ({**DEEPSEEK, **FP8_KV}, 61 * 576),
    ({**DEEPSEEK, **SPARSE}, 61 * (576 * 2 + 132)),
    ({**DEEPSEEK, **SPARSE, **FP8_KV}, 61 * (656 + 132)),
    ({**DEEPSEEK, "model_type": "minicpm3"}, 2 * 61 * 128 * 56 * 2),
]


def shape_of(folder: Path, config: dict[str, Any]) -> KvShape:
    (folder / "config.json").write_text(json.dumps(config))
    return read_model_spec(folder).kv


@pytest.mark.parametrize(("config", "expected"), PER_TOKEN)
def test_bytes_per_token(tmp_path: Path, config: dict[str, Any], expected: int) -> None:
    assert shape_of(tmp_path, config).bytes_per_token == expected


def test_modelopt_writes_the_format_of_the_cache_beside_the_config(tmp_path: Path) -> None:
    quantization = {"quantization": {"kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(quantization))
    assert shape_of(tmp_path, LLAMA_70B).bytes_per_token == 163_840


def test_layers_that_use_the_indexer_of_another_keep_nothing_for_it() -> None:
    config = {**SPARSE, "num_hidden_layers": 6}
    assert index_cache_bytes(config) == 6 * 132
    # layer ids 0 1 | 2 3 4 5: offset 2 -> max(i - 1, 0) % 3 = 0 0 1 2 0 1
    assert index_cache_bytes({**config, "index_topk_freq": 3}) == 3 * 132
    assert index_cache_bytes({**config, "index_topk_pattern": "FSSFFS"}) == 3 * 132
    assert index_cache_bytes({"num_hidden_layers": 6}) == 0


# (model, prefill tp, decode tp, bytes per prompt token of the busiest rank), by hand
BUSIEST = [
    (LLAMA_8B, 1, 1, 131_072),
    (LLAMA_8B, 2, 2, 65_536),
    (LLAMA_8B, 1, 4, 131_072),  # one prefill rank sends all heads
    (LLAMA_8B, 4, 1, 131_072),  # one decode rank receives all heads
    (LLAMA_8B, 1, 16, 262_144),  # 16 decode ranks read one head each, every head twice
    (LLAMA_70B, 4, 8, 81_920),  # a prefill rank sends its 2 heads to 2 ranks
    (LLAMA_70B, 8, 4, 81_920),
    (LLAMA_70B, 8, 8, 40_960),
    (LLAMA_70B, 16, 16, 40_960),  # replicated on both sides: one head per pair of ranks
    (LLAMA_70B, 16, 8, 40_960),  # each head is read once
    (LLAMA_70B, 8, 16, 81_920),
    (DEEPSEEK, 8, 8, 70_272),
    (DEEPSEEK, 8, 1, 70_272),
    (DEEPSEEK, 4, 8, 140_544),  # each prefill rank feeds two decode ranks
]


@pytest.mark.parametrize(("config", "prefill_tp", "decode_tp", "expected"), BUSIEST)
def test_bytes_of_the_busiest_rank(
    tmp_path: Path, config: dict[str, Any], prefill_tp: int, decode_tp: int, expected: int
) -> None:
    kv = shape_of(tmp_path, config)
    moved = transfer_bytes_per_token(kv, prefill_tp=prefill_tp, decode_tp=decode_tp)
    assert moved == expected


def heads_moved(num_heads: int, prefill_tp: int, decode_tp: int) -> int:
    """Twin: every decode rank fetches each head that it holds from the first prefill rank of those
    opposite that holds it; the most that a rank sends or receives."""
    received, sent = [0] * decode_tp, [0] * prefill_tp

    def held(rank: int, tp: int) -> set[int]:
        return {h for h in range(num_heads) for r in [rank] if _holds(num_heads, tp, r, h)}

    for rank in range(decode_tp):
        first = rank * prefill_tp // decode_tp
        opposite = range(first, first + max(1, prefill_tp // decode_tp))
        for head in held(rank, decode_tp):
            source = next(r for r in opposite if head in held(r, prefill_tp))
            received[rank] += 1
            sent[source] += 1
    return max(received + sent)


def _holds(num_heads: int, tp: int, rank: int, head: int) -> bool:
    if tp <= num_heads:
        return head // (num_heads // tp) == rank
    return rank // (tp // num_heads) == head


SIZES = [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8, 16])
def test_like_counting_rank_by_rank(num_heads: int) -> None:
    kv = KvShape(num_layers=1, num_kv_heads=num_heads, head_bytes=1)
    for p in SIZES:
        for d in SIZES:
            moved = transfer_bytes_per_token(kv, prefill_tp=p, decode_tp=d)
            assert moved == heads_moved(num_heads, p, d), (p, d)


@pytest.mark.engine
@pytest.mark.parametrize("is_mla", [False, True])
def test_vllm_reads_as_many(is_mla: bool) -> None:
    """Against the mapping of vLLM's own connector."""
    from vllm.distributed.kv_transfer.kv_connector.utils import TransferTopology
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.tp_mapping import compute_tp_mapping
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    for num_heads in [1] if is_mla else [2, 8]:
        kv = KvShape(num_layers=1, num_kv_heads=num_heads, head_bytes=1)
        for p in SIZES[:5]:
            for d in SIZES[:5]:
                sent, received = [0] * p, []
                for rank in range(d):
                    topology = TransferTopology(
                        tp_rank=rank,
                        tp_size=d,
                        block_size=16,
                        engine_id="d",
                        is_mla=is_mla,
                        is_mamba=False,
                        total_num_kv_heads=128 if is_mla else num_heads,
                        attn_backends=[],
                    )
                    plan = compute_tp_mapping(topology, p, (FullAttentionSpec,))
                    heads = 1 if is_mla else topology.local_physical_heads
                    received.append(heads)
                    for source in plan.all_source_ranks:  # a read is split over them
                        sent[source] += heads // len(plan.all_source_ranks)
                moved = transfer_bytes_per_token(kv, prefill_tp=p, decode_tp=d)
                assert moved == max(sent + received), (num_heads, p, d)


@pytest.mark.parametrize(
    ("prefill_tp", "decode_tp", "message"),
    [
        (3, 1, "prefill tp must divide the 8 KV heads or be a multiple of them, got 3"),
        (1, 0, "decode tp must divide"),
        (16, 24, "one must divide the other, got 16 and 24"),
    ],
)
def test_sizes_between_which_vllm_moves_nothing(
    prefill_tp: int, decode_tp: int, message: str
) -> None:
    kv = KvShape(num_layers=32, num_kv_heads=8, head_bytes=16384)
    with pytest.raises(LinkError, match=message):
        transfer_bytes_per_token(kv, prefill_tp=prefill_tp, decode_tp=decode_tp)


def test_a_shape_without_a_size_is_one_line() -> None:
    with pytest.raises(LinkError, match="lacks 'head_size'"):
        kv_shape_of({"num_layers": 2, "num_kv_heads": 2, "dtype": "float16"})
    old = {"num_layers": 2, "num_kv_heads": 2, "head_size": 8, "dtype": "float16"}
    assert kv_shape_of(old).bytes_per_token == 2 * 2 * 2 * 8 * 2


@pytest.mark.parametrize(
    ("model", "kv_dtype", "expected"),
    [
        ("meta-llama/Meta-Llama-3.1-8B", 2, 131_072),
        ("meta-llama/Meta-Llama-3.1-70B", 2, 327_680),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", 1, 163_840),
        ("deepseek-ai/DeepSeek-V3", 2, 70_272),
        ("deepseek-ai/DeepSeek-V3.2", 2, 61 * (1152 + 132)),
    ],
)
def test_models_of_the_published_data(model: str, kv_dtype: int, expected: int) -> None:
    pytest.importorskip(
        "aiconfigurator_core", reason="the published GPU data is not installed: stallfree[silicon]"
    )
    from profiler.engines.silicon.source import open_model

    with open_model(model) as (_, spec):
        assert spec.kv_dtype_bytes == kv_dtype
        assert spec.kv.bytes_per_token == expected
