"""Rows that contradict themselves, on an engine with made-up tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_row import ROW as MADE

from profiler.engine_config import EngineConfig
from profiler.engines.silicon.shapes import Shapes, as_samples
from profiler.latency.base import StepTimeModel
from profiler.latency.params import plain_params
from profiler.latency.region import SampledRegion, columns_of
from tuner.fidelity.checks import HELD_BACK, TIGHT, TOO_FAST, contradiction, contradictions
from tuner.fidelity.engines import Engine
from tuner.fidelity.servers import spec_of

ROW = replace(MADE, isl=1000, osl=1000, concurrency=10)
"""a request takes 9.1 s"""


@pytest.fixture
def engine() -> Engine:
    """0.1 ms a prompt token, 5 ms a decode step, room for 100,000 tokens."""
    one = np.array([1])
    region = SampledRegion.of(columns_of(as_samples(Shapes(one, one, one, one, one), np.ones(1))))
    params = plain_params(per_prefill_token_s=1e-4, per_decode_s=5e-4)
    model = StepTimeModel(params, 0.0, 0.0, np.ones(1), region, {})
    return Engine(
        kernel_model=model,
        resolved=EngineConfig(block_size=16),
        kv_blocks_by_budget=((8192, 6250),),
        capture_sizes=np.array([1]),
        num_layers=80,
        kv_share_by_budget=((8192, 0.3),),
        planner={},
    )


def test_a_plain_row_is_kept(engine: Engine) -> None:
    assert contradiction(ROW, engine) == ""


def test_more_prompts_than_the_gpu_can_compute(engine: Engine) -> None:
    short = replace(ROW, osl=10, ttft_s=0.7, tpot_s=0.001)
    assert contradiction(short, engine) == TOO_FAST  # 0.9 s of prompts in 0.71 s
    assert contradiction(replace(short, ttft_s=0.9), engine) == ""
    assert contradiction(replace(ROW, tpot_s=0.002), engine) == TOO_FAST  # decodes: 4.5 of 1.9 s


def test_waiting_without_a_reason(engine: Engine) -> None:
    held = replace(ROW, ttft_s=20.0)
    assert contradiction(held, engine) == HELD_BACK
    assert contradiction(replace(held, concurrency=60), engine) == ""  # KV is full


def test_little_room_for_kv(engine: Engine) -> None:
    tight = replace(engine, kv_share_by_budget=((8192, 0.05),))
    assert contradiction(ROW, tight) == ""  # needs a fifth of it
    assert contradiction(replace(ROW, concurrency=30, tpot_s=0.02), tight) == TIGHT


def test_a_series_goes_when_half_of_it_is_impossible(engine: Engine) -> None:
    fast = replace(ROW, id="fast", tpot_s=0.002)
    slow = replace(ROW, id="slow")
    engines = {spec_of(ROW): engine}
    assert contradictions((fast, slow), engines) == {"fast": TOO_FAST, "slow": TOO_FAST}
    more = (fast, slow, replace(slow, id="too"))
    assert contradictions(more, engines) == {"fast": TOO_FAST}
