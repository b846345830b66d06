"""What counts as sampled."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_steps import random_columns

from profiler.engine_config import EngineConfig
from profiler.latency.region import SampledRegion
from profiler.latency.roofline import select_columns
from profiler.latency.step_time import BatchColumns


def _batch(prefill: int = 0, before: int = 0, decodes: int = 0, depth: int = 0) -> BatchColumns:
    return BatchColumns(
        prefill_tokens=np.array([prefill]),
        num_prefills=np.array([min(prefill, 1)]),
        attention_pairs=np.array([prefill * (before + (prefill + 1) / 2)]),
        chunk_context=np.array([before]),
        num_decodes=np.array([decodes]),
        decode_context=np.array([decodes * depth]),
        follows=np.array([0]),
    )


@pytest.fixture(scope="module")
def columns() -> BatchColumns:
    return random_columns(3000, seed=3)[0]


def test_what_was_sampled_is_inside(columns: BatchColumns) -> None:
    assert not SampledRegion.of(columns).outside(columns).any()


@pytest.mark.parametrize(
    ("batch", "outside"),
    [
        (_batch(prefill=300), False),
        (_batch(decodes=20, depth=500), False),
        (_batch(prefill=300, decodes=20, depth=500), False),
        (_batch(prefill=8192), True),
        (_batch(decodes=256, depth=500), True),
        (_batch(decodes=20, depth=100_000), True),
        (_batch(prefill=300, before=200_000), True),
    ],
)
def test_beyond_the_sampled_range_is_outside(
    columns: BatchColumns, batch: BatchColumns, outside: bool
) -> None:
    assert SampledRegion.of(columns).outside(batch).tolist() == [outside]


def test_a_kind_never_sampled_is_outside(columns: BatchColumns) -> None:
    chunks = select_columns(columns, columns.num_decodes == 0)
    region = SampledRegion.of(chunks)
    assert region.gaps() == ("decode-only", "mixed")
    assert region.outside(_batch(decodes=2, depth=100)).all()


def test_a_hole_between_sampled_shapes_is_outside() -> None:
    few_deep, many_shallow = _batch(decodes=2, depth=4000), _batch(decodes=64, depth=60)
    both = BatchColumns(*(np.concatenate(p) for p in zip(few_deep, many_shallow, strict=True)))
    region = SampledRegion.of(both)
    assert region.outside(_batch(decodes=64, depth=4000)).all()
    assert not region.outside(_batch(decodes=2, depth=3000)).any()


def test_settings_that_allow_steps_beyond_are_named(columns: BatchColumns) -> None:
    region = SampledRegion.of(columns)
    assert region.beyond(EngineConfig(max_num_batched_tokens=2048, max_num_seqs=64)) == ()
    (sentence,) = region.beyond(EngineConfig(max_num_batched_tokens=8192))
    assert "max_num_batched_tokens=8192" in sentence


@pytest.mark.parametrize("kinds", [(0, 1, 2), (1,)])
def test_json_round_trip(columns: BatchColumns, kinds: tuple[int, ...]) -> None:
    chunk_only = (columns.num_decodes == 0) | (len(kinds) == 3)
    region = SampledRegion.of(select_columns(columns, chunk_only))
    again = SampledRegion.from_dict(json.loads(json.dumps(region.to_dict(), allow_nan=False)))
    assert again.counts == region.counts
    for name in ("low", "high", "cells"):
        np.testing.assert_array_equal(getattr(again, name), getattr(region, name))
