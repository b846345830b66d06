"""Published GPU data: what needs no package."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines.silicon.defaults import capture_sizes, server_defaults
from profiler.engines.silicon.shapes import Shapes, as_samples, random_shapes
from profiler.engines.silicon.spec import NO_TERMS, Terms
from profiler.engines.silicon.tabulate import Extent, tabulate, with_terms
from profiler.latency.params import StepTables, plain_params
from profiler.latency.region import columns_of
from profiler.latency.roofline import device_seconds

EXTENT = Extent(tokens=600, decodes=40, depth=3000)


class MadeUp:
    """Layers with a jump, attention bilinear in tokens and depth, and a cost per chunk."""

    def layers_ms(self, tokens: int) -> float:
        return 5.0 + 0.01 * tokens + (3.0 if tokens > 128 else 0.0)

    def step_ms(
        self, prefills: int, prefill_tokens: int, cached: int, decodes: int, context: int
    ) -> float:
        own = prefill_tokens / max(1, prefills)
        depth = cached / max(1, prefills) + (own + 1) / 2
        attention = 1e-5 * prefill_tokens * depth + 2e-5 * context
        return self.layers_ms(prefill_tokens + decodes) + attention


@pytest.fixture(scope="module")
def tables() -> StepTables:
    return tabulate(MadeUp(), EXTENT, nodes=9)  # type: ignore[arg-type]


def test_tables_give_the_source_back(tables: StepTables) -> None:
    shapes = random_shapes(300, EXTENT, 10_000, one_chunk_when_mixed=False, seed=3)
    expected = [
        MadeUp().step_ms(int(p), int(p * n), int(p * before), int(d), int(d * context))
        for p, n, before, d, context in zip(
            shapes.prompts, shapes.chunk, shapes.cached, shapes.decodes, shapes.context, strict=True
        )
    ]
    steps = as_samples(shapes, np.array(expected) / 1e3)
    params = plain_params()._replace(tables=tables)
    found = device_seconds(params, columns_of(steps))
    np.testing.assert_allclose(found, steps.exec_s, rtol=5e-3)


def test_unequal_chunks_count_with_their_own_pairs(tables: StepTables) -> None:
    """(100 at 0) and (100 at 2,000) cost more than (199 at 0) and (1 at 2,000) of equal average."""
    params = plain_params()._replace(tables=tables)
    shapes = random_shapes(0, EXTENT, 10_000, one_chunk_when_mixed=False, seed=0)
    steps = as_samples(shapes, np.ones(3)).select(np.array([1, 1]))
    pairs = [100 * 50.5 + 100 * 2050.5, 199 * 100 + 2001.0]
    columns = columns_of(steps)._replace(
        prefill_tokens=np.array([200, 200]),
        num_prefills=np.array([2, 2]),
        attention_pairs=np.array(pairs),
        chunk_context=np.array([2000, 2000]),
    )
    found = device_seconds(params, columns)
    assert found[0] - found[1] == pytest.approx(1e-8 * (pairs[0] - pairs[1]), rel=5e-3)


def test_shapes_fit_the_kv_pool_and_reach_the_ends() -> None:
    shapes = random_shapes(600, EXTENT, 5000, one_chunk_when_mixed=True, seed=1)
    assert (shapes.prompts * shapes.cached).max() <= 5000
    assert (shapes.decodes * shapes.context).max() <= 5000 + 40  # rounded to whole tokens
    assert (shapes.prompts[(shapes.decodes > 0)] <= 1).all()
    assert shapes.decodes.max() == 40
    assert (shapes.prompts * shapes.chunk).max() == 600
    kinds = (shapes.prompts > 0) * 2 + (shapes.decodes > 0)
    assert np.bincount(kinds).tolist() == [0, 201, 201, 201]


def test_graph_padding_and_the_time_that_nothing_hides(tables: StepTables) -> None:
    sizes = np.array([1, 2, 4, 8])
    padded = with_terms(tables, Terms(step_s=1e-3), sizes, 2)
    assert padded.decode_step_s[5] == pytest.approx(tables.decode_step_s[8] + 1e-3)
    assert padded.chunk_step_s[3] == pytest.approx(tables.chunk_step_s[4] + 1e-3)
    assert padded.chunk_step_s[9] == pytest.approx(tables.chunk_step_s[9] + 1e-3)
    for before, after in zip(tables, with_terms(tables, NO_TERMS, sizes, 2), strict=True):
        np.testing.assert_array_equal(before, after)


def test_clock_decodes_and_launches(tables: StepTables) -> None:
    terms = replace(NO_TERMS, chunk_factor=1.5, decode_factor=0.5, launch_per_layer_s=1e-3)
    made = with_terms(tables, terms, np.array([1, 2, 4, 8]), 30)
    floor = tables.chunk_step_s[1]
    expected = 0.5 * floor + 1.5 * (tables.chunk_step_s[200] - floor)
    assert made.chunk_step_s[200] == pytest.approx(expected)
    assert made.chunk_step_s[0] == pytest.approx(0.03)
    np.testing.assert_allclose(made.decode_step_s, 0.5 * tables.decode_step_s, atol=1e-10)
    for grid, factor in enumerate((0.5, 0.5, 1.5, 1.5)):
        before, after = tables.attention_s[grid], made.attention_s[grid]
        np.testing.assert_allclose(after[:-1], factor * before[:-1], atol=1e-10)
        np.testing.assert_allclose(after[-1], before[-1], atol=1e-10)


def test_no_step_with_a_chunk_is_faster_than_its_launches(tables: StepTables) -> None:
    terms = replace(NO_TERMS, launch_per_layer_s=1e-3)
    made = with_terms(tables, terms, np.array([1]), 30)
    params = plain_params()._replace(tables=made)
    chunks, tokens, cached = np.array([1, 1, 0]), np.array([16, 500, 0]), np.zeros(3, dtype=int)
    shapes = Shapes(chunks, tokens, cached, np.array([0, 0, 4]), np.array([0, 0, 100]))
    before = plain_params()._replace(tables=tables)
    columns = columns_of(as_samples(shapes, np.ones(3)))
    plain, seconds = device_seconds(before, columns), device_seconds(params, columns)
    np.testing.assert_allclose(seconds[:2], np.maximum(plain[:2], 0.03))
    assert seconds[0] == pytest.approx(0.03)
    assert seconds[2] == pytest.approx(plain[2])


def test_capture_sizes() -> None:
    config = EngineConfig(max_num_batched_tokens=8192, max_num_seqs=1024)
    hopper = capture_sizes(config, {"sm_version": 90}).tolist()
    assert hopper[:5] == [1, 2, 4, 8, 16]
    assert hopper[-3:] == [480, 496, 512]
    assert {248, 256, 272} <= set(hopper) and 264 not in hopper
    assert capture_sizes(config, {"sm_version": 103})[-1] == 1024
    few = EngineConfig(max_num_batched_tokens=2048, max_num_seqs=10)
    assert capture_sizes(few, {"sm_version": 90}).tolist() == [1, 2, 4, 8, 10, 16]


@pytest.mark.parametrize(
    ("gib", "system", "budget", "seqs"),
    [
        (180, "b200_sxm", 16384, 1024),
        (141, "h200_sxm", 8192, 1024),
        (80, "h100_sxm", 8192, 1024),
        (80, "a100_sxm", 2048, 256),
        (48, "l40s", 2048, 256),
    ],
)
def test_server_defaults_by_gpu(gib: int, system: str, budget: int, seqs: int) -> None:
    found = server_defaults({"mem_capacity": gib * 2**30}, system)
    assert (found.max_num_batched_tokens, found.max_num_seqs) == (budget, seqs)
    assert found.async_scheduling and found.block_size == 16
