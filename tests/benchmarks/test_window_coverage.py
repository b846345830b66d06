"""How often the 90 % intervals of 8 windows cover the truth. Run by `make bench`; prints, and
asserts only that something was covered."""

from __future__ import annotations

import pytest

from tests.tuner.window_truth import measure, traffic

CASES = {
    "100 requests, steady": (traffic(16.7, 6.0, steady=True), 100, 400),
    "400 requests, steady": (traffic(66.7, 6.0, steady=True), 100, 200),
    "2,000 requests, steady": (traffic(333.0, 6.0, steady=True), 50, 50),
    "2,000 requests, steady, twice the rate": (traffic(167.0, 12.0, steady=True), 50, 50),
    "one hour, 18,000 requests, rate as recorded": (traffic(3600.0, 5.0, steady=False), 20, 20),
}


@pytest.mark.bench
@pytest.mark.parametrize("name", CASES)
def test_coverage(name: str) -> None:
    draw, num_traces, num_truth = CASES[name]
    found = measure(draw, num_traces, num_truth)
    print(f"\n{name}, {num_traces} traces: {found.line()}")
    assert max(found.covered.values()) > 0
