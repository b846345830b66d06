"""Shared prefixes: measured as a slow reading says, drawn as measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profiler.traffic.doctor import prefix_sharing
from profiler.traffic.prefixes import Sharing, measure_sharing
from profiler.traffic.synthetic import QuantileTable, SynthSpec, mixed, synthesize
from profiler.traffic.trace import Trace

SHARING = Sharing(
    block_tokens=10,
    common_blocks=1,
    continued=tuple(0.05 * i for i in range(10)),
    probabilities=(0.0, 0.5, 1.0),
    share=(0.3, 0.8, 1.0),
    age_s=(1.0, 10.0, 60.0),
)
TABLE = QuantileTable((0.0, 0.5, 1.0), (20.0, 100.0, 400.0))
SPEC = SynthSpec(2000.0, 2.0, TABLE, TABLE, sharing=SHARING)
HALVES = (0.0, 0.5, 1.0)


def own_blocks(trace: Trace) -> list[list[int]]:
    """Whole blocks of each prompt."""
    assert trace.prefix_hashes is not None and trace.prefix_offsets is not None
    parts = np.split(trace.prefix_hashes, trace.prefix_offsets[1:-1])
    size = trace.prefix_block_tokens or 1
    return [p[: n // size].tolist() for p, n in zip(parts, trace.prompt_tokens, strict=True)]


def slow_match(own: list[list[int]], i: int) -> tuple[int, int]:
    """Leading blocks that an earlier prompt has in its own, and the last such prompt."""
    best, last = 0, -1
    for j in range(i):
        pairs = zip(own[i], own[j], strict=False)
        k = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(own[i]), len(own[j])))
        if k >= max(best, 1):
            best, last = k, j
    return best, last


def test_measured_as_a_slow_reading_says() -> None:
    trace = synthesize(replace(SPEC, duration_s=200.0))
    own = own_blocks(trace)
    match = [slow_match(own, i) for i in range(trace.num_requests)]
    on = [i for i, (k, _) in enumerate(match) if k > 1]
    found = measure_sharing(trace, HALVES)
    assert found is not None and found.common_blocks == 1 and len(on) > 50
    shares = [match[i][0] / len(own[i]) for i in on]
    ages = [trace.arrival_s[i] - trace.arrival_s[match[i][1]] for i in on]
    assert found.share == pytest.approx(
        np.quantile(shares, HALVES, method="inverted_cdf"), abs=1e-4
    )
    assert found.age_s == pytest.approx(np.quantile(ages, HALVES, method="inverted_cdf"), abs=1e-4)
    assert np.mean(found.continued) == pytest.approx(len(on) / len(own), abs=0.01)


def test_drawn_as_asked() -> None:
    trace = synthesize(SPEC)
    found = measure_sharing(trace, HALVES)
    assert found is not None
    assert found.continued == pytest.approx(SHARING.continued, abs=0.07)
    assert found.share[1] == pytest.approx(0.8, abs=0.03)
    assert found.age_s[1] == pytest.approx(10.0, rel=0.1)
    assert trace.digest() == synthesize(SPEC).digest() != synthesize(replace(SPEC, seed=1)).digest()


def test_sharing_leaves_times_and_lengths_alone() -> None:
    plain, shared = synthesize(replace(SPEC, sharing=None)), synthesize(SPEC)
    assert plain.prefix_hashes is None
    assert plain.arrival_s.tolist() == shared.arrival_s.tolist()
    assert plain.prompt_tokens.tolist() == shared.prompt_tokens.tolist()


def test_nothing_shared_is_nothing_shared() -> None:
    alone = replace(SHARING, common_blocks=0, continued=(0.0,) * 10)
    trace = synthesize(replace(SPEC, duration_s=100.0, sharing=alone))
    sharing = prefix_sharing(trace)
    assert sharing is not None and sharing["hit_request_share"] == 0.0
    found = measure_sharing(trace, HALVES)
    assert found is not None and (found.common_blocks, set(found.continued)) == (0, {0.0})
    assert measure_sharing(synthesize(replace(SPEC, sharing=None)), HALVES) is None


def test_a_mix_keeps_every_request_of_its_classes() -> None:
    parts = {
        "a": synthesize(replace(SPEC, duration_s=50.0)),
        "b": synthesize(replace(SPEC, seed=4)),
    }
    trace = mixed(parts)
    assert trace.class_names == ("a", "b") and (np.diff(trace.arrival_s) >= 0).all()
    for index, part in enumerate(parts.values()):
        rows = trace.classes == index
        assert trace.arrival_s[rows].tolist() == part.arrival_s.tolist()
        assert trace.prompt_tokens[rows].tolist() == part.prompt_tokens.tolist()
        assert trace.output_tokens[rows].tolist() == part.output_tokens.tolist()
