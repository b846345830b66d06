"""Layer-wise transfer: what is left of a load when its prefill ends."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import SimulationError
from profiler.outcomes import Status
from profiler.traffic.trace import Trace
from tuner.simulator import Link, Pool, PoolSimulation, simulate_pools
from tuner.simulator.difftest.compare import MODEL
from tuner.simulator.link import bytes_after_prefill
from tuner.simulator.transfer_build import role_rules

PLAIN = getattr(bytes_after_prefill, "py_func", bytes_after_prefill)
BYTES, BLOCK, LAYERS = 1000.0, 16, 4


def left(size: float, early_s: float, rate: float, layers: int) -> float:
    """The formula."""
    rules = role_rules("kv_both", "fail", False)
    return float(PLAIN(rules._replace(bytes_per_s=rate, overlap_layers=layers), size, early_s))


def left_event_by_event(chunks: list[tuple[float, float]], rate: float, layers: int) -> float:
    """Twin: chunks of (seconds, bytes), one after the other; each layer of each is sent when the
    ones before it have left. Bytes that have not left at the end."""
    parts, now = [], 0.0
    for seconds, size in chunks:
        parts += [(now + seconds * (i + 1) / layers, size / layers) for i in range(layers)]
        now += seconds
    free_s, moved = 0.0, 0.0
    for ready_s, size in parts:
        start_s = max(free_s, ready_s)
        free_s = start_s + size / rate
        moved += size * min(1.0, max(0.0, (now - start_s) / (free_s - start_s)))
    return sum(size for _, size in parts) - moved


@pytest.mark.parametrize("seed", range(60))
def test_one_chunk_as_event_by_event(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seconds, size, rate = rng.uniform(0.1, 10.0, 3)
    layers = int(rng.integers(2, 9))
    early_s = seconds * (1 - 1 / layers)
    expected = left_event_by_event([(seconds, size)], rate, layers)
    assert left(size, early_s, rate, layers) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_slowing_chunks_as_event_by_event_but_for_the_last_part(seed: int) -> None:
    """Exact, unless only a part of the last chunk is left, which is taken as large as one of a
    prompt in one chunk."""
    rng = np.random.default_rng(seed)
    size, layers, rate = rng.uniform(0.1, 2.0), int(rng.integers(2, 9)), rng.uniform(0.1, 10.0)
    chunks = [(float(s), float(size)) for s in np.sort(rng.uniform(0.1, 2.0, 4))]
    early_s = sum(s for s, _ in chunks) - chunks[0][0] / layers
    expected = left_event_by_event(chunks, rate, layers)
    whole = 4 * size
    assert left(whole, early_s, rate, layers) == pytest.approx(max(whole / layers, expected))


def test_without_overlap_everything_is_left() -> None:
    assert left(100.0, 5.0, 1e9, 1) == 100.0
    assert left(100.0, 5.0, np.inf, 1) == 100.0


def run(link: Link, prompts: list[int], budget: int = 64) -> PoolSimulation:
    """Requests far apart through one prefill and one decode replica."""
    config = EngineConfig(
        max_num_batched_tokens=budget, max_num_seqs=8, max_model_len=2048, block_size=BLOCK
    )
    n = len(prompts)
    return simulate_pools(
        Trace(100.0 * np.arange(n), np.array(prompts), np.full(n, 4)),
        Pool(config, MODEL, 500),
        Pool(config, MODEL, 500, kv_role="kv_consumer"),
        link,
        kv_bytes_per_token=BYTES,
        seed=None,
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rate", [1e5, 2e6, 1e9])
def test_a_load_is_as_much_shorter_as_the_link_had_time_for(rate: float, shared: bool) -> None:
    """Prompts of one and of several chunks, alone on the link."""
    prompts = [20, 64, 700]
    plain = run(Link(1e-3, rate, shared), prompts)
    layered = run(Link(1e-3, rate, shared, overlap_layers=LAYERS), prompts)
    np.testing.assert_array_equal(layered.prefill_s, plain.prefill_s)
    for i, prompt in enumerate(prompts):
        size = -(-prompt // BLOCK) * BLOCK * BYTES
        first = run(Link(1e-3, rate), [min(prompt, 64)])  # an engine at rest: its first chunk
        start_s = MODEL.frontend_in_s
        chunk_s = float(first.prefill_s[0]) - start_s
        early_s = plain.prefill_s[i] - 100.0 * i - start_s - chunk_s / LAYERS
        expected_s = left(size, float(early_s), rate, LAYERS) / rate + 1e-3
        spent_s = layered.load_end_s[i] - layered.load_start_s[i]
        assert spent_s == pytest.approx(expected_s, rel=1e-6)
        assert plain.load_end_s[i] - plain.load_start_s[i] == pytest.approx(size / rate + 1e-3)
    assert (layered.outcomes.status == Status.FINISHED).all()
    assert (layered.outcomes.first_token_s <= plain.outcomes.first_token_s).all()


def test_a_link_needs_at_least_one_layer() -> None:
    with pytest.raises(SimulationError, match="overlap_layers of a link must be at least 1, got 0"):
        run(dataclasses.replace(Link(1e-3, 1e6), overlap_layers=0), [20])
