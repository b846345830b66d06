"""`Trace`: rules, slicing, scaling, capping, sampling, digest, Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profiler.errors import TraceError
from profiler.traffic.trace import Trace


def random_trace(seed: int, num: int | None = None) -> Trace:
    """A trace with every optional field filled."""
    rng = np.random.default_rng(seed)
    num = num or int(rng.integers(1, 60))
    prompt = rng.integers(1, 5000, num)
    sizes = rng.integers(0, -(-prompt // 512) + 1)
    arrival = np.sort(rng.integers(0, 50, num) / 4)
    return Trace.build(
        arrival - arrival[0],
        prompt,
        rng.integers(1, 800, num),
        priority=rng.integers(-2, 3, num),
        request_class=rng.integers(0, 2, num),
        class_names=("chat", "batch"),
        prefix_hashes=rng.integers(-(2**63), 2**63 - 1, sizes.sum()),
        prefix_offsets=np.concatenate(([0], np.cumsum(sizes))),
        prefix_block_tokens=512,
        acceptance_rate=rng.random(num),
        source="random",
    )


def hashes_of(trace: Trace, i: int) -> list[int]:
    assert trace.prefix_hashes is not None and trace.prefix_offsets is not None
    return trace.prefix_hashes[trace.prefix_offsets[i] : trace.prefix_offsets[i + 1]].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_parquet_round_trip_keeps_every_field(tmp_path: Path, seed: int) -> None:
    trace = random_trace(seed)
    trace.save(tmp_path / "t.parquet")
    again = Trace.load(tmp_path / "t.parquet")
    assert again.digest() == trace.digest()
    assert (again.source, again.class_names) == (trace.source, trace.class_names)
    assert again.prefix_hashes is not None and trace.prefix_hashes is not None
    assert again.prefix_hashes.tolist() == trace.prefix_hashes.tolist()
    assert again.acceptance_rate is not None and trace.acceptance_rate is not None
    assert again.acceptance_rate.tolist() == trace.acceptance_rate.tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_parquet_round_trip_of_the_plain_fields(tmp_path: Path) -> None:
    trace = Trace.build([0.0, 0.1], [1, 2], [3, 4])
    trace.save(tmp_path / "t.parquet")
    again = Trace.load(tmp_path / "t.parquet")
    assert again.digest() == trace.digest()
    assert again.priority is None and again.request_class is None and again.prefix_hashes is None


@pytest.mark.parametrize("seed", range(20))
def test_slice_takes_the_requests_of_the_window(seed: int) -> None:
    trace = random_trace(seed, num=40)
    rows = [i for i, t in enumerate(trace.arrival_s) if 2.0 <= t < 9.0]
    part = trace.slice(2.0, 9.0)
    assert part.num_requests == len(rows)
    for k, i in enumerate(rows):
        assert part.arrival_s[k] == trace.arrival_s[i] - trace.arrival_s[rows[0]]
        assert part.prompt_tokens[k] == trace.prompt_tokens[i]
        assert part.output_tokens[k] == trace.output_tokens[i]
        assert part.classes[k] == trace.classes[i]
        assert hashes_of(part, k) == hashes_of(trace, i)


@pytest.mark.parametrize("seed", range(20))
def test_cap_shortens_lengths_and_their_prefix_hashes(seed: int) -> None:
    trace = random_trace(seed)
    cut = trace.cap(max_prompt_tokens=1000, max_output_tokens=100)
    assert cut.prompt_tokens.tolist() == [min(p, 1000) for p in trace.prompt_tokens]
    assert cut.output_tokens.tolist() == [min(o, 100) for o in trace.output_tokens]
    for i in range(trace.num_requests):
        blocks = -(-int(cut.prompt_tokens[i]) // 512)
        assert hashes_of(cut, i) == hashes_of(trace, i)[:blocks]


def test_scale_rate_stretches_times_only() -> None:
    trace = random_trace(3, num=50)
    scaled = trace.scale_rate(7.5)
    assert scaled.rate_rps == pytest.approx(7.5)
    assert scaled.arrival_s / trace.arrival_s[-1] == pytest.approx(
        trace.arrival_s * scaled.arrival_s[-1] / trace.arrival_s[-1] ** 2
    )
    assert scaled.prompt_tokens is trace.prompt_tokens


def test_sample_is_seeded_ordered_and_without_repeats() -> None:
    trace = Trace.build(np.arange(100.0), np.arange(1, 101), np.ones(100))
    first, second = trace.sample(30, seed=1), trace.sample(30, seed=1)
    assert first.digest() == second.digest() != trace.sample(30, seed=2).digest()
    assert (np.diff(first.prompt_tokens) > 0).all() and first.arrival_s[0] == 0


def test_digest_sees_content_and_not_source() -> None:
    base = Trace.build([0.0, 1.0], [5, 6], [7, 8], source="one")
    assert base.digest() == Trace.build([0.0, 1.0], [5, 6], [7, 8], source="two").digest()
    assert base.digest() != Trace.build([0.0, 1.0], [5, 6], [7, 9]).digest()
    assert base.digest() != Trace.build([0.0, 1.0], [7, 8], [5, 6]).digest()


def test_describe_and_rate() -> None:
    trace = Trace.build([0.0, 1.0, 4.0], [10, 20, 30], [1, 1, 4])
    figures = trace.describe()
    assert figures["num_requests"] == 3 and figures["duration_s"] == 4.0
    assert figures["rate_rps"] == 0.5 and figures["prompt_tokens"]["p50"] == 20
    assert figures["output_tokens"]["max"] == 4 and figures["classes"] == {"default": 3}
    assert trace.classes.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("arrival", "prompt", "output", "message"),
    [
        ([], [], [], "at least one request"),
        ([0.0, 2.0, 1.0], [1, 1, 1], [1, 1, 1], "request 2 at 1 s comes after 2 s"),
        ([1.0, 2.0], [1, 1], [1, 1], "first arrival must be 0"),
        ([0.0, float("nan")], [1, 1], [1, 1], "request 1 has nan"),
        ([0.0, float("inf")], [1, 1], [1, 1], "request 1 has inf"),
        ([0.0, 1.0], [1, 0], [1, 1], "prompt_tokens must be from 1 .* request 1 has 0"),
        ([0.0, 1.0], [1, 1], [1, -4], "output_tokens must be from 1 .* request 1 has -4"),
        ([0.0, 1.0], [1, 1.5], [1, 1], "whole numbers; request 1 has 1.5"),
        ([0.0, 1.0], [1, 2**40], [1, 1], "request 1 has 1099511627776"),
        ([0.0, 1.0], [1], [1, 1], "prompt_tokens must hold 2 numbers"),
        ([0.0, 1.0], ["1", "2"], [1, 1], "whole numbers"),
    ],
)
def test_build_names_the_broken_rule(
    arrival: list[float], prompt: list[int], output: list[int], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        Trace.build(arrival, prompt, output)


@pytest.mark.parametrize(
    ("optional", "message"),
    [
        ({"class_names": ("a", "b")}, "no class per request"),
        ({"class_names": ("a", "a"), "request_class": [0, 1]}, "once each"),
        ({"class_names": ("a",), "request_class": [0, 1]}, "must index the 1 names"),
        ({"prefix_hashes": [1]}, "need all of"),
        (
            {"prefix_hashes": [1, 2], "prefix_offsets": [0, 2, 2], "prefix_block_tokens": 16},
            "request 0 has 2 prefix hashes, more than its 5 prompt tokens",
        ),
        (
            {"prefix_hashes": [1, 2], "prefix_offsets": [0, 1, 1], "prefix_block_tokens": 16},
            "must rise from 0",
        ),
        (
            {"prefix_hashes": [1, 2], "prefix_offsets": [0, 1, 2], "prefix_block_tokens": 0},
            "at least 1 token",
        ),
    ],
)
def test_build_checks_the_optional_fields(optional: dict[str, object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        Trace.build([0.0, 1.0], [5, 5], [1, 1], **optional)  # type: ignore[arg-type]


def test_operations_refuse_what_cannot_be() -> None:
    trace = Trace.build([0.0, 1.0], [5, 5], [1, 1])
    with pytest.raises(TraceError, match="no request arrives from 5 s to 6 s; the trace lasts 1 s"):
        trace.slice(5, 6)
    with pytest.raises(TraceError, match="above 0 requests/s, got -1"):
        trace.scale_rate(-1)
    with pytest.raises(TraceError, match="all 2 requests arrive at once"):
        Trace.build([0.0, 0.0], [1, 1], [1, 1]).scale_rate(2)
    with pytest.raises(TraceError, match="at least 1 token, got 0"):
        trace.cap(max_output_tokens=0)
    with pytest.raises(TraceError, match="cannot sample 3 of 2"):
        trace.sample(3, seed=0)


def test_load_refuses_other_and_damaged_files(tmp_path: Path) -> None:
    other, changed, text = (tmp_path / n for n in ("other.parquet", "changed.parquet", "x.txt"))
    with pytest.raises(TraceError, match="no such file"):
        Trace.load(other)
    pq.write_table(pa.table({"a": [1]}), other)
    with pytest.raises(TraceError, match="not a trace of Stallfree's"):
        Trace.load(other)
    text.write_text("PAR1 no more")
    with pytest.raises(TraceError, match=r"x\.txt: not a readable Parquet file"):
        Trace.load(text)
    Trace.build([0.0, 1.0], [5, 5], [1, 1]).save(changed)
    table = pq.read_table(changed)
    longer = table.set_column(1, "prompt_tokens", pa.array([5, 6]))
    pq.write_table(longer, changed)
    with pytest.raises(TraceError, match="does not match its digest"):
        Trace.load(changed)


def test_load_refuses_another_schema_version(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    Trace.build([0.0, 1.0], [5, 5], [1, 1]).save(path)
    table = pq.read_table(path)
    key = b"stallfree.trace"
    newer = table.schema.metadata[key].replace(b'"version": 1', b'"version": 2')
    pq.write_table(table.replace_schema_metadata({key: newer}), path)
    with pytest.raises(TraceError, match="schema version 2, this Stallfree reads 1"):
        Trace.load(path)


def test_save_to_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot write the trace"):
        Trace.build([0.0], [5], [1]).save(tmp_path / "no" / "t.parquet")
