"""The trace doctor: what it reports about reading, units, artefacts and prefix sharing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profiler.traffic.doctor import diagnose, find_artefacts, prefix_sharing, time_grid_s
from profiler.traffic.readers import read_trace
from profiler.traffic.trace import Trace


def plain(arrival: np.ndarray, prompt: np.ndarray | None = None) -> Trace:
    num = len(arrival)
    return Trace.build(
        arrival - arrival[0], np.arange(1, num + 1) if prompt is None else prompt, np.ones(num)
    )


@pytest.mark.parametrize("seed", range(30))
def test_reading_keeps_drops_and_sorts_like_the_obvious_way(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines, rows, dropped, late, blank = ["arrival_s,prompt_tokens,output_tokens"], [], [], [], []
    latest = -1.0
    for number in range(2, 42):
        if rng.random() < 0.1:
            lines.append("")
            blank.append(number)
            continue
        when, prompt, output = rng.integers(0, 99) / 8, rng.integers(0, 6), rng.integers(1, 9)
        lines.append(f"{when},{prompt},{output}")
        if prompt == 0:
            dropped.append(number)
            continue
        if when < latest:
            late.append(number)
        latest = max(latest, when)
        rows.append((when, number, prompt, output))
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n1e3,7,7")
    rows.append((1000.0, 42, 7, 7))
    rows.sort(key=lambda row: row[:2])
    result = read_trace(path)
    assert result.trace.arrival_s.tolist() == [row[0] - rows[0][0] for row in rows]
    assert result.trace.prompt_tokens.tolist() == [row[2] for row in rows]
    assert result.trace.output_tokens.tolist() == [row[3] for row in rows]
    notes = {n.reason: n for n in (*result.report.dropped, *result.report.repaired)}
    expected = {
        "prompt: no tokens, nothing to serve": dropped,
        "out of order: sorted by arrival": late,
        "blank line skipped": blank,
    }
    assert {reason: n.count for reason, n in notes.items()} == {
        reason: len(found) for reason, found in expected.items() if found
    }
    for reason, note in notes.items():
        assert list(note.lines) == expected[reason][:5]
    assert result.report.rows_read == len(rows) + len(dropped)
    assert result.report.rows_kept == len(rows)


@pytest.mark.parametrize(
    ("column", "values", "unit", "word"),
    [
        ("timestamp", [1700000000, 1700000100], "s", "Unix times in s"),
        ("timestamp", [1700000000000, 1700000000900], "ms", "Unix times in ms"),
        ("timestamp", [1700000000000000, 1700000000900000], "us", "Unix times in us"),
        ("timestamp", [1700000000000000000, 1700000000900000000], "ns", "Unix times in ns"),
        ("timestamp", [0, 300, 700], "ms", "mean rate is 2.86 requests/s, in s it would be"),
        ("timestamp", [0, 1, 3], "s", "mean rate is 0.667 requests/s, in ms it would be"),
        ("timestamp", [0, 400000, 700000], "us", "override with --map unit=s"),
        ("timestamp_ms", [0, 1, 2], "ms", "named by the column"),
        ("arrival_s", [0, 5000, 9000], "s", "named by the column"),
        ("timestamp", [7, 7], "s", "all times are equal"),
    ],
)
def test_time_unit_is_found_and_explained(
    tmp_path: Path, column: str, values: list[int], unit: str, word: str
) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{value},1,1\n" for value in values)
    path.write_text(f"{column},prompt_tokens,output_tokens\n{rows}")
    report = read_trace(path).report
    assert report.time_unit == unit and word in report.time_evidence
    scale = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    span = (values[-1] - values[0]) / scale
    assert read_trace(path).trace.duration_s == pytest.approx(span)


def test_byte_order_mark_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfarrival_s,prompt_tokens,output_tokens\n0,1,1\n")
    assert read_trace(path).report.notes == ("byte order mark: removed",)


@pytest.mark.parametrize("step", [0.1, 1.0, 3.0, 60.0])
@pytest.mark.parametrize("wobble_s", [0.0, 0.0003])
def test_grid_is_found(step: float, wobble_s: float) -> None:
    rng = np.random.default_rng(0)
    stamps = np.unique(rng.integers(0, 400, 200)) * step
    stamps = np.sort(stamps + rng.choice([-wobble_s, 0.0, wobble_s], len(stamps)))
    assert time_grid_s(stamps - stamps[0]) == step


def test_no_grid_in_continuous_times_or_in_a_handful() -> None:
    assert time_grid_s(np.sort(np.random.default_rng(0).random(500) * 1000)) is None
    assert time_grid_s(np.arange(10.0)) is None


def test_artefacts_are_named_with_their_figures() -> None:
    grid = plain(np.repeat(np.arange(40) * 3.0, 6))
    clock, burst = find_artefacts(grid)
    assert "grid of 3 s (mean gap 0.49 s)" in clock
    assert "up to 6 requests at 0 s, 240 requests on 40 stamps" in burst
    times = np.cumsum(np.random.default_rng(1).exponential(1.0, 200))
    assert find_artefacts(plain(times)) == []
    (cut,) = find_artefacts(plain(times, np.minimum(np.arange(1, 201), 150)))
    assert "prompt lengths look cut: 25.5% have the largest value, 150" in cut


def test_diagnosis_of_rate_over_time() -> None:
    arrival = np.concatenate((np.arange(0, 30, 0.5), np.arange(30, 60.1, 0.1)))
    diagnosis = diagnose(plain(arrival))
    assert len(diagnosis.rate_rps) == 60 and diagnosis.rate_bin_s == pytest.approx(1.0, rel=0.01)
    assert np.mean(diagnosis.rate_rps[:29]) == pytest.approx(2.0, rel=0.05)
    assert np.mean(diagnosis.rate_rps[31:]) == pytest.approx(10.0, rel=0.05)
    total = sum(diagnosis.rate_rps) * diagnosis.rate_bin_s
    assert total == pytest.approx(len(arrival))


def test_diagnosis_of_one_request_and_of_one_stamp() -> None:
    one = diagnose(Trace.build([0.0], [5], [6]))
    assert one.rate_rps == () and one.gap_cv is None and one.figures["rate_rps"] is None
    stamp = diagnose(Trace.build(np.zeros(7), np.ones(7), np.ones(7)))
    assert stamp.rate_rps == () and "up to 7 requests" in stamp.artefacts[0]


def naive_sharing(trace: Trace) -> tuple[float, float]:
    assert trace.prefix_hashes is not None and trace.prefix_offsets is not None
    block = trace.prefix_block_tokens or 1
    cache: set[int] = set()
    tokens = hits = 0
    for i in range(trace.num_requests):
        own = trace.prefix_hashes[trace.prefix_offsets[i] : trace.prefix_offsets[i + 1]]
        run = 0
        for value in own[: trace.prompt_tokens[i] // block]:
            if value not in cache:
                break
            run += 1
        cache.update(own.tolist())
        tokens += run * block
        hits += run > 0
    return tokens / trace.prompt_tokens.sum(), hits / trace.num_requests


@pytest.mark.parametrize("seed", range(40))
def test_prefix_sharing_equals_the_obvious_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num = int(rng.integers(1, 30))
    prompt = rng.integers(1, 90, num)
    sizes = rng.integers(0, -(-prompt // 16) + 1)
    trace = Trace.build(
        np.arange(num),
        prompt,
        np.ones(num),
        prefix_hashes=rng.integers(0, 12, sizes.sum()),
        prefix_offsets=np.concatenate(([0], np.cumsum(sizes))),
        prefix_block_tokens=16,
    )
    sharing = prefix_sharing(trace)
    assert sharing is not None
    tokens, requests = naive_sharing(trace)
    assert sharing["hit_token_share"] == pytest.approx(tokens)
    assert sharing["hit_request_share"] == pytest.approx(requests)


def test_no_prefix_hashes_no_sharing() -> None:
    assert prefix_sharing(Trace.build([0.0], [1], [1])) is None
