"""Traffic before and after, against slow, obvious twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from profiler.errors import TraceError
from profiler.traffic.synthetic import like
from profiler.traffic.trace import Trace
from tuner.drift import cells, traffic
from tuner.drift.cells import TIME, cells_of, columns_of, grid_of, resample, sharing
from tuner.drift.finding import ALL, LEVEL, Finding, holm, p_values
from tuner.drift.traffic import OUTPUT, PROMPT, RATE, SHARING, TrafficDrift, compare_traffic
from tuner.windows import each_window


def made(n: int, seed: int, *, prefixes: float | None = None, classes: bool = False) -> Trace:
    """Bursty traffic; `prefixes` is the chance that a prompt goes on from the one before."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.gamma(0.5, 2.0, n))
    prompt = rng.integers(16, 400, n)
    optional = {}
    if prefixes is not None:
        sizes, hashes, fresh, before = -(-prompt // 16), [], 1, []
        for size in sizes:
            kept = before[:size] if rng.random() < prefixes else []
            before = [*kept, *range(fresh, fresh + size - len(kept))]
            fresh += size
            hashes += before
        optional = {
            "prefix_hashes": np.array(hashes),
            "prefix_offsets": np.concatenate([[0], np.cumsum(sizes)]),
            "prefix_block_tokens": 16,
        }
    if classes:
        optional |= {"request_class": rng.integers(0, 2, n), "class_names": ("chat", "code")}
    return Trace.build(arrival - arrival[0], prompt, rng.integers(1, 60, n), **optional)


def found(drift: TrafficDrift, quantity: str, of: str = ALL) -> Finding:
    (one,) = [f for f in drift.findings if (f.quantity, f.of) == (quantity, of)]
    return one


@pytest.mark.parametrize("seed", range(3))
def test_effects_equal_their_definitions(seed: int) -> None:
    before, after = made(150, seed, classes=True), made(220, seed + 100, classes=True)
    drift = compare_traffic(before, after)
    for name in (ALL, "chat", "code"):
        rows = [
            t.classes == t.class_names.index(name) if name != ALL else t.classes >= 0
            for t in (before, after)
        ]
        for quantity, field in ((PROMPT, "prompt_tokens"), (OUTPUT, "output_tokens")):
            old, new = (getattr(t, field)[r] for t, r in zip((before, after), rows, strict=True))
            one = found(drift, quantity, name)
            assert one.before == pytest.approx(old.mean())
            assert one.after == pytest.approx(new.mean())
            assert one.effect == pytest.approx(wasserstein_distance(old, new) / old.mean())
        rates = [
            r.sum() / (t.duration_s * t.num_requests / (t.num_requests - 1))
            for t, r in zip((before, after), rows, strict=True)
        ]
        one = found(drift, RATE, name)
        assert (one.before, one.after) == pytest.approx(tuple(rates))
        assert one.effect == pytest.approx(max(rates) / min(rates) - 1)


def test_long_tables_of_lengths_are_compared_at_quantiles() -> None:
    rng = np.random.default_rng(1)
    arrival = np.arange(3000.0)
    lengths = rng.integers(1, 100_000, (2, 3000))
    before = Trace.build(arrival, lengths[0], lengths[1])
    after = replace(before, prompt_tokens=before.prompt_tokens * 3 // 2)
    exact = wasserstein_distance(before.prompt_tokens, after.prompt_tokens)
    one = found(compare_traffic(before, after), PROMPT)
    assert one.effect == pytest.approx(exact / before.prompt_tokens.mean(), rel=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_resampled_sums_equal_those_of_joined_cells(seed: int) -> None:
    trace = made(90, seed, classes=True)
    grid = grid_of(trace, trace)
    table = cells_of(trace, grid, [trace.classes == 0, trace.classes >= 0])
    assert len(table) == 90 and table.shape[1] == columns_of(grid, 2)[-1].end
    windows = resample(table, 40, 7, np.random.default_rng(seed))
    starts = np.random.default_rng(seed).integers(90, size=(7, 5))
    for window, own in zip(windows, starts, strict=True):
        rows = [(start + i) % 90 for start in own for i in range(cells.BLOCK)]
        assert window == pytest.approx(sum(table[row] for row in rows))


def test_cells_hold_every_request_once() -> None:
    trace = made(1000, 4, prefixes=0.5)
    grid = grid_of(trace, made(800, 5))
    assert grid.cell == 3
    (own,) = columns_of(grid, 1)
    total = cells_of(trace, grid, [trace.classes >= 0]).sum(axis=0)
    assert total[own.count] == 1000
    assert total[TIME] == pytest.approx(trace.duration_s * 1000 / 999)
    assert total[list(own.tokens)] == pytest.approx(
        [trace.prompt_tokens.sum(), trace.output_tokens.sum()]
    )
    assert [total[part].sum() for part in own.lengths] == [1000, 1000]


@pytest.mark.parametrize("chunk_s", [30.0, 75.0, 1e9])
def test_sharing_equals_looking_back(chunk_s: float) -> None:
    trace = made(80, 2, prefixes=0.6)
    chunk_s = min(chunk_s, trace.duration_s)
    shared, sharable = sharing(trace, chunk_s)
    assert trace.prefix_hashes is not None and trace.prefix_offsets is not None
    num_chunks = int(trace.duration_s / chunk_s)
    for i in range(80):
        chunk = min(int(trace.arrival_s[i] / chunk_s), num_chunks)
        if chunk == num_chunks and trace.duration_s > chunk_s * num_chunks * 1.01:
            assert sharable[i] == 0
            continue
        start_s = min(chunk, num_chunks - 1) * chunk_s
        seen = set()
        for j in range(i):
            if trace.arrival_s[j] >= start_s:
                whole = trace.prompt_tokens[j] // 16
                first = trace.prefix_offsets[j]
                seen |= set(trace.prefix_hashes[first : first + whole].tolist())
        first = trace.prefix_offsets[i]
        own = trace.prefix_hashes[first : first + trace.prompt_tokens[i] // 16].tolist()
        leading = 0
        while leading < len(own) and own[leading] in seen:
            leading += 1
        assert shared[i] == 16 * leading
        assert sharable[i] == trace.prompt_tokens[i]


def test_p_values_and_holm_equal_counting() -> None:
    rng = np.random.default_rng(0)
    effects, by_chance = rng.random(4), rng.random((50, 4))
    by_chance[3, 1] = np.nan
    chance = p_values(effects, by_chance)
    for t in range(4):
        larger = sum(1 for r in range(50) if by_chance[r, t] >= effects[t])
        assert chance[t] == (1 + larger) / 51
    raw = [0.01, 0.04, 0.03, 0.005, 0.9]
    findings = [Finding("x", str(i), 0, 0, "", 1.0, 0.1, p) for i, p in enumerate(raw)]
    # Holm: 5 x 0.005, 4 x 0.01, 3 x 0.03, then never smaller than the one before, at most 1
    assert [f.p for f in holm(findings)] == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.9])
    assert [f.drifted for f in holm(findings)] == [True, False, False, True, False]


def test_small_but_certain_is_no_drift() -> None:
    assert not Finding("x", ALL, 1, 1, "", 0.05, 0.1, 0.001).drifted
    assert not Finding("x", ALL, 1, 1, "", 0.5, 0.1, 2 * LEVEL).drifted
    assert Finding("x", ALL, 1, 0, "", np.inf, 0.1, 0.001).to_dict()["effect"] is None


def shifted(trace: Trace, share: float) -> Trace:
    """Prompts and outputs longer by a factor."""
    return replace(
        trace,
        prompt_tokens=np.maximum(1, np.rint(trace.prompt_tokens * share).astype(np.int64)),
        output_tokens=np.maximum(1, np.rint(trace.output_tokens * share).astype(np.int64)),
    )


def test_shifted_traffic_is_told_from_resampled() -> None:
    trace = like(duration_s=300.0, rate_rps=4.0, seed=1)
    for window in each_window(trace, 4):
        assert not [f for f in compare_traffic(trace, window).findings if f.drifted]
        longer = compare_traffic(trace, shifted(window, 1.5))
        assert {f.quantity for f in longer.findings if f.drifted} == {PROMPT, OUTPUT}
        faster = compare_traffic(trace, window.scale_rate(1.4 * window.rate_rps))
        assert found(faster, RATE).drifted and not found(faster, PROMPT).drifted


def test_other_sharing_is_a_drift() -> None:
    before = made(1500, 1, prefixes=0.5)
    same, less = made(1500, 2, prefixes=0.5), made(1500, 3, prefixes=0.3)
    assert not found(compare_traffic(before, same), SHARING).drifted
    one = found(compare_traffic(before, less), SHARING)
    assert one.drifted and one.after < one.before
    without = compare_traffic(before, made(1500, 4))
    assert SHARING not in {f.quantity for f in without.findings}
    assert "does not record prefixes" in without.not_judged[0]


def test_a_class_that_comes_or_goes_is_a_drift() -> None:
    before = made(600, 1, classes=True)
    gone = replace(before, request_class=np.zeros(600, dtype=np.int64))
    lost = found(compare_traffic(before, gone), RATE, "code")
    assert lost.drifted and lost.after == 0
    assert found(compare_traffic(gone, before), RATE, "code").drifted
    rare = replace(gone, request_class=np.where(np.arange(600) < 5, 1, 0))
    drift = compare_traffic(gone, rare)
    assert not [f for f in drift.findings if f.of == "code"]
    assert drift.not_judged == ["class code: 5 requests in the new traffic"]


def test_traffic_without_classes_is_compared_as_a_whole() -> None:
    drift = compare_traffic(made(200, 1, classes=True), made(200, 2))
    assert {f.of for f in drift.findings} == {ALL}
    assert drift.not_judged == ["classes: only one of the two tells them apart"]


def test_too_little_traffic_is_refused() -> None:
    trace = made(traffic.LEAST_REQUESTS, 1)
    few = made(traffic.LEAST_REQUESTS - 1, 1)
    with pytest.raises(TraceError, match="new traffic has 49 requests"):
        compare_traffic(trace, few)
    with pytest.raises(TraceError, match="study's traffic"):
        compare_traffic(replace(trace, arrival_s=np.zeros(50)), trace)
