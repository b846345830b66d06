"""Tables of numbers that figures of traffic are drawn from."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dashboard.derive.traffic_shape import (
    burstiness,
    cumulative,
    histogram,
    joint,
    length_rows,
    rate,
    traffic_shape,
)
from profiler.traffic.synthetic import like
from profiler.traffic.trace import Trace


def made(num: int = 2000, seed: int = 0) -> Trace:
    """Poisson arrivals of two classes."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(0.5, num))
    return Trace.build(
        arrival - arrival[0],
        rng.integers(1, 4000, num),
        rng.integers(1, 300, num),
        request_class=np.arange(num) % 2,
        class_names=("chat", "code"),
    )


def test_the_shape_is_plain_json_and_small() -> None:
    shape = traffic_shape(like("azure-conv-2023", duration_s=600, rate_rps=20.0, seed=1))
    text = json.dumps(shape, allow_nan=False)
    assert len(text) < 100_000
    assert shape["diagnosis"]["figures"]["num_requests"] > 10_000


@pytest.mark.parametrize(
    "tokens", [[1], [7, 7, 7], [1, 2, 3, 4], list(range(1, 5000)), [1, 131_072]]
)
def test_a_histogram_holds_every_request(tokens: list[int]) -> None:
    bins = histogram(np.array(tokens))
    edges, density = np.array(bins["edges"]), np.array(bins["density"])
    assert edges[0] <= min(tokens) and edges[-1] > max(tokens)
    assert (density * np.log2(edges[1:] / edges[:-1])).sum() == pytest.approx(100.0, rel=1e-3)


def test_a_cumulated_distribution_is_right_where_it_is_thinned() -> None:
    tokens = np.random.default_rng(0).integers(1, 20_000, 30_000)
    thin = cumulative(tokens)
    assert len(thin["tokens"]) <= 400
    assert thin["share"][-1] == 100.0 and thin["tokens"][-1] == tokens.max()
    for at, share in zip(thin["tokens"][::50], thin["share"][::50], strict=True):
        assert share == pytest.approx(100 * (tokens <= at).mean(), abs=1e-3)


def test_lengths_are_given_by_class() -> None:
    trace = made()
    rows = length_rows(trace)
    assert [(row["of"], row["class"]) for row in rows] == [
        ("prompt", "chat"), ("prompt", "code"), ("output", "chat"), ("output", "code"),
    ]  # fmt: skip
    assert rows[3]["p50"] == np.median(trace.output_tokens[1::2])


def test_the_joint_table_counts_every_request() -> None:
    trace = made()
    table = joint(trace)
    counts = np.array(table["counts"])
    assert counts.shape == (len(table["output"]) - 1, len(table["prompt"]) - 1)
    assert counts.sum() == trace.num_requests
    long = trace.prompt_tokens >= table["prompt"][-2]
    assert counts[:, -1].sum() == long.sum()


def test_rates_count_every_request() -> None:
    trace = made()
    found = rate(trace)
    assert sum(found["rate_rps"]) * found["bin_s"] == pytest.approx(trace.num_requests, rel=1e-3)
    assert len(rate(trace, 10)["rate_rps"]) == 10


def test_poisson_arrivals_lie_in_the_band_and_bursts_do_not() -> None:
    found = burstiness(made(20_000))
    assert found is not None
    inside = [
        low <= value <= high
        for value, low, high in zip(found["dispersion"], found["low"], found["high"], strict=True)
    ]
    assert np.mean(inside) > 0.7
    rng = np.random.default_rng(1)
    clumps = np.sort(np.repeat(np.cumsum(rng.exponential(5.0, 2000)), 10))
    bursts = burstiness(Trace.build(clumps - clumps[0], np.ones(20_000), np.ones(20_000)))
    assert bursts is not None
    assert min(bursts["dispersion"]) > 5  # clumps of ten: variance over mean is 10


def test_traffic_on_one_stamp_has_no_rate_and_no_burstiness() -> None:
    shape = traffic_shape(Trace.build(np.zeros(100), np.full(100, 5), np.full(100, 1)))
    assert shape["burstiness"] is None and shape["rate"]["rate_rps"] == []
    assert len(shape["regimes"]) == 1
