"""How often `stallfree watch` calls traffic drifted that has not, and misses traffic that has.

Run by `make bench`, or alone:
python -m pytest -q -s -m bench tests/benchmarks/test_watch_false_alarms.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

from profiler.traffic.readers import read_trace
from profiler.traffic.synthetic import like
from profiler.traffic.trace import Trace
from tuner.drift.finding import LEVEL
from tuner.drift.traffic import compare_traffic
from tuner.windows import each_window

NUM_WINDOWS = 200
NUM_SHIFTED = 50
"""windows of each kind of shifted traffic"""

Change = Callable[[Trace], Trace]


def longer(trace: Trace) -> Trace:
    """Prompts and outputs half as long again."""
    grown = {
        name: np.rint(1.5 * getattr(trace, name)).astype(np.int64)
        for name in ("prompt_tokens", "output_tokens")
    }
    return replace(trace, **grown)


def faster(trace: Trace) -> Trace:
    """Arrivals 1.3 times as dense."""
    return trace.scale_rate(1.3 * trace.rate_rps)


def less_shared(trace: Trace) -> Trace:
    """A third of the prompts begin with something of their own instead of an earlier prompt."""
    assert trace.prefix_hashes is not None and trace.prefix_offsets is not None
    rng = np.random.default_rng(trace.num_requests)
    own = rng.random(trace.num_requests) < 1 / 3
    number = np.where(own, 1 + np.arange(trace.num_requests), 0).astype(np.uint64)
    changed = np.repeat(number, np.diff(trace.prefix_offsets)) * np.uint64(0x9E3779B97F4A7C15)
    return replace(trace, prefix_hashes=(trace.prefix_hashes.view(np.uint64) ^ changed).view("i8"))


def report(name: str, study: Trace, windows: Iterable[Trace], change: Change | None) -> float:
    """Print how many of `windows` were called drifted; that share."""
    drifted = by_test = by_ks = num = 0
    for window in windows:
        now = window if change is None else change(window)
        findings = compare_traffic(study, now).findings
        drifted += any(f.drifted for f in findings)
        by_test += any(f.p <= LEVEL for f in findings)
        lengths = ("prompt_tokens", "output_tokens")
        ks = [ks_2samp(getattr(study, n), getattr(now, n)).pvalue for n in lengths]
        by_ks += min(ks) <= LEVEL / len(ks)
        num += 1
    what = "unshifted" if change is None else (change.__doc__ or "").strip(" .")
    print(
        f"{name}, {study.num_requests} requests; {what}: drifted {drifted}/{num} "
        f"({drifted / num:.1%}); by the test alone {by_test}/{num}; plain KS {by_ks}/{num}"
    )
    return drifted / num


@pytest.mark.bench
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("minutes", [60, 10, 2])
def test_resampled_windows_of_recorded_traffic(azure_trace_path: Path, minutes: int) -> None:
    trace = read_trace(azure_trace_path).trace
    study = trace if minutes == 60 else trace.slice(600.0, 600.0 + 60.0 * minutes)
    name = f"Azure conversation, {minutes} min"
    print()
    assert report(name, study, each_window(study, NUM_WINDOWS + 1), None) <= LEVEL
    for change in (longer, faster):
        windows = each_window(study, NUM_SHIFTED + 1)
        assert report(name, study, windows, change) > 0.5


@pytest.mark.bench
def test_other_minutes_of_recorded_traffic(azure_trace_path: Path) -> None:
    """Not the same traffic: real hours change. Printed to show what the thresholds let pass."""
    trace = read_trace(azure_trace_path).trace
    later = [trace.slice(600.0 * k, 600.0 * (k + 1)) for k in range(2, 6)]
    print()
    share = report("Azure conversation, minutes 10 to 20", trace.slice(600, 1200), later, None)
    assert 0 <= share <= 1


@pytest.mark.bench
@pytest.mark.timeout(3600)
def test_independent_traces_that_share_prefixes() -> None:
    """Not resampled: windows joined from blocks would tear shared prefixes apart."""

    def traces(num: int) -> Iterable[Trace]:
        seeds = range(1, num + 1)
        return (like("mooncake-conv-2025", duration_s=600, rate_rps=3.0, seed=s) for s in seeds)

    study = like("mooncake-conv-2025", duration_s=600, rate_rps=3.0, seed=0)
    print()
    assert report("Mooncake-like", study, traces(NUM_WINDOWS), None) <= LEVEL
    for change in (faster, less_shared):
        assert report("Mooncake-like", study, traces(NUM_SHIFTED), change) > 0.5
