"""Images in traces: rules, slicing and capping, Parquet, digest, readers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from profiler.errors import TraceError
from profiler.traffic.columns import ColumnMap
from profiler.traffic.images import Images
from profiler.traffic.readers import read_trace
from profiler.traffic.trace import Trace
from tuner.cli.traffic import traffic_app

Rows = list[list[tuple[int, int, int]]]


def make_trace(rows: Rows, prompts: list[int]) -> Trace:
    times = np.arange(len(prompts), dtype=float)
    return Trace.build(times, prompts, [5] * len(prompts), images=Images.of_rows(rows))


def rows_of(trace: Trace) -> Rows:
    images = trace.images
    assert images is not None
    flat = list(zip(images.start, images.tokens, images.identity, strict=True))
    return [flat[a:b] for a, b in zip(images.offsets, images.offsets[1:], strict=False)]


def random_rows(seed: int, num: int = 30) -> tuple[Rows, list[int]]:
    rng = np.random.default_rng(seed)
    sizes, rows, prompts = rng.integers(1, 50, 6), [], []
    for _ in range(num):
        row, at = [], 0
        for identity in rng.integers(0, 6, rng.integers(0, 5)):
            at += int(rng.integers(0, 9))
            row.append((at, int(sizes[identity]), int(identity) - 3))
            at += int(sizes[identity])
        rows.append(row)
        prompts.append(at + int(rng.integers(1, 20)))
    return rows, prompts


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[(0, 10, 1)], []], "images are given for 2 requests, the trace has 1"),
        ([[(0, 0, 1)]], "at least 1 token"),
        ([[(95, 6, 1)]], "inside it"),
        ([[(-1, 6, 1)]], "inside it"),
        ([[(0, 10, 1), (9, 3, 2)]], "not overlap"),
        ([[(20, 10, 1), (0, 3, 2)]], "in order"),
        ([[(0, 10, 1), (10, 3, 1)]], "equally many tokens"),
    ],
)
def test_a_broken_rule_is_one_line(rows: Rows, message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        make_trace(rows, [100])
    assert "\n" not in str(caught.value)


def test_offsets_must_rise() -> None:
    with pytest.raises(TraceError, match="must rise from 0"):
        Images.build([0], [1], [1], [0, 2, 1])


@pytest.mark.parametrize("seed", range(10))
def test_slice_sample_and_cap_keep_the_images_of_their_requests(seed: int) -> None:
    rows, prompts = random_rows(seed)
    trace = make_trace(rows, prompts)
    assert rows_of(trace) == rows
    assert rows_of(trace.slice(3.0, 9.0)) == rows[3:9]
    kept = trace.sample(10, seed)
    offset = [int(p) for p in kept.prompt_tokens]
    assert all(
        pair in zip(prompts, rows, strict=True) for pair in zip(offset, rows_of(kept), strict=True)
    )
    capped = trace.cap(60)
    assert rows_of(capped) == [[i for i in row if i[0] + i[1] <= 60] for row in rows]
    capped.images.check_inside(capped.prompt_tokens)  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(5))
def test_parquet_round_trip(tmp_path: Path, seed: int) -> None:
    trace = make_trace(*random_rows(seed))
    trace.save(tmp_path / "t.parquet")
    again = Trace.load(tmp_path / "t.parquet")
    assert again.digest() == trace.digest()
    assert rows_of(again) == rows_of(trace)


def test_the_digest_sees_images_only_where_there_are_some() -> None:
    trace = make_trace([[(0, 4, 1)], []], [9, 9])
    assert trace.digest() != make_trace([[(0, 4, 2)], []], [9, 9]).digest()
    assert replace(trace, images=None).digest() == Trace.build([0.0, 1.0], [9, 9], [5, 5]).digest()


def test_listed_images_are_read(tmp_path: Path) -> None:
    rows = [
        {"t": 1, "in": 20, "out": 3, "pictures": [[0, 8, 2**64 - 1], [10, 4, 7]]},
        {"t": 0, "in": 30, "out": 3, "pictures": []},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mapping = ColumnMap.parse("arrival=t,prompt=in,output=out,unit=s,images=pictures")
    trace = read_trace(path, mapping=mapping).trace
    assert rows_of(trace) == [[], [(0, 8, -1), (10, 4, 7)]]
    shown = CliRunner().invoke(
        traffic_app,
        ["inspect", str(path), "--map", "arrival=t,prompt=in,output=out,unit=s,images=pictures"],
    )
    assert "2 (2 different) in 1 requests, 12 tokens" in " ".join(shown.output.split())


def test_a_number_of_images_is_placed_only_when_a_size_is_given(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
        "2024-10-16 16:00:00.5,2,1234,10\n2024-10-16 16:00:01.5,2,600,20\n"
    )
    assert read_trace(path).trace.images is None
    columns = "arrival=TIMESTAMP,prompt=ContextTokens,output=GeneratedTokens,images=NumImages"
    with pytest.raises(TraceError, match="add image_tokens=TOKENS"):
        read_trace(path, mapping=ColumnMap.parse(columns))
    result = read_trace(path, mapping=ColumnMap.parse(f"{columns},image_tokens=576"))
    assert rows_of(result.trace) == [[(0, 576, 0), (576, 576, 1)], [(0, 576, 2)]]
    assert any("1 of 4 do not fit" in note for note in result.report.notes)


def test_an_image_size_needs_a_column() -> None:
    with pytest.raises(TraceError, match="needs images=COLUMN"):
        ColumnMap.parse("image_tokens=576")
