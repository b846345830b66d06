"""Figures of the Why page: bars fill their steps, rows are few, cut-offs are said."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.figures.measured import profile_steps_figure, ttft_figure, words_of_similar
from dashboard.figures.why import (
    DECODES,
    MOST_ROWS,
    OTHERS,
    bars_of,
    gaps_figure,
    steps_figure,
    waterfall_figure,
)


def step(number: int, chunks: list[tuple[int, float]], jitter_s: float = 0.0) -> dict[str, Any]:
    parts = [
        {"request": r, "tokens": 100, "before": 0, "encoded": 0, "seconds": s} for r, s in chunks
    ]
    seconds = sum(s for _, s in chunks) + 0.01 + jitter_s
    return {
        "number": number,
        "start_s": 5.0 + number,
        "end_s": 5.0 + number + seconds,
        "seconds": seconds,
        "chunks": parts,
        "num_decodes": 3,
        "decodes_s": 0.01,
        "jitter_s": jitter_s,
        "num_running": 4,
        "num_waiting": 0,
        "free_blocks": 9,
    }


def story(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "kind": "gap",
        "request": 7,
        "seconds": 1.0,
        "start_s": 5.0,
        "end_s": 6.0,
        "tokens_s": [5.0, 6.0],
        "steps": steps,
    }


def test_bars_fill_their_step_and_no_more() -> None:
    one = story([step(0, [(1, 0.2), (2, 0.1)], 0.05), step(1, [(3, 0.2)], -0.05), step(2, [])])
    bars = bars_of(one)
    for s in one["steps"]:
        start = 1e3 * (s["start_s"] - 5.0)
        own = [b for b in bars if start - 1e-6 <= b.start_ms < start + 1e3 * s["seconds"]]
        assert sum(b.ms for b in own) == pytest.approx(1e3 * s["seconds"])
    assert {b.row for b in bars} == {"#1 prompt", "#2 prompt", "#3 prompt", DECODES, "jitter"}


def test_many_requests_share_a_row() -> None:
    figure = steps_figure(story([step(i, [(i + 100, 0.01 * (i + 1))]) for i in range(20)]))
    rows = figure.layout.yaxis.categoryarray
    assert len(rows) == MOST_ROWS + 3  # its tokens, the others and the decodes
    assert OTHERS in rows and rows[-1] == "#7 tokens"
    assert "#119 prompt" in rows and "#100 prompt" not in rows
    assert figure.layout.xaxis.title.text == "ms after the start of the gap, at 5.000 s"
    assert list(figure.data[-1].x) == [0.0, 1000.0]


def test_a_waterfall_cuts_off_a_long_answer_and_says_so() -> None:
    parts = [
        {"what": "in the queue", "start_s": 0.0, "seconds": 0.5},
        {"what": "63 more tokens", "start_s": 0.5, "seconds": 60.0},
    ]
    figure = waterfall_figure(parts, 0.5)
    assert list(figure.data[0].text) == ["500 ms", "60 s, cut off"]
    assert list(figure.data[0].x) == [500.0, 500.0]


def test_gaps_with_and_without_a_limit() -> None:
    figure = gaps_figure([0.001, 0.1], 0.05)
    assert figure.layout.yaxis.type == "log" and len(figure.data) == 2
    assert list(figure.data[0].x) == [2, 3]
    assert len(gaps_figure([0.01], None).data) == 1


def test_measured_over_simulated() -> None:
    one = {"time_s": [0.0, 1.0], "seconds": [0.01, 0.02], "tokens": [5, 0], "decodes": [0, 1]}
    figure = profile_steps_figure({"measured": one, "simulated": one})
    assert [t.name for t in figure.data] == ["simulated", "measured"]
    assert len({t.marker.symbol for t in figure.data}) == 2
    rounds = [
        {"speed": 1.0, "seen_s": [0.1, None], "predicted_s": [0.2, 0.3]},
        {"speed": 0.9, "seen_s": [0.1, 0.2], "predicted_s": [0.1, None]},
    ]
    found = {"arrival_s": [0.0, 4.0], "numbers": [1, 2], "requests": 2, "rounds": rounds}
    figure = ttft_figure(found, "measured", 2)
    assert list(figure.data[0].y) == [100.0, None] and list(figure.data[1].y) == [200.0, None]
    assert [t.name for t in figure.data[2:]] == [
        "measured, round 1 (speed 1.00)",
        "measured, round 2 (speed 0.90)",
    ]
    assert figure.layout.shapes[0].x0 == 4.0
    assert not ttft_figure(found, "measured", 3).layout.shapes


def test_similar_steps_in_words() -> None:
    batch = {"count": 0, "tokens": 168, "decodes": 1, "seconds": 0.05}
    assert "measured no step like" in words_of_similar(batch)
    seen = batch | {"count": 1, "low_s": 0.01, "median_s": 0.02, "high_s": 0.03}
    assert "1 measured step like it took 10 ms to 30 ms, median 20 ms" in words_of_similar(seen)
