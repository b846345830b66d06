"""Every public format, on small text in the form in which it is published."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from profiler.errors import TraceError
from profiler.traffic.columns import ColumnMap
from profiler.traffic.readers import ReadResult, read_trace
from profiler.traffic.trace import Trace

Read = Callable[..., ReadResult]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write content to a file without a telling name, then read it."""

    def write_and_read(content: str | bytes, **options: object) -> ReadResult:
        path = tmp_path / "traffic"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_trace(path, **options)  # type: ignore[arg-type]

    return write_and_read


AZURE_2023 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:15:46.6805900,374,44\r\n"
    "2023-11-16 18:15:50.9951690,396,109\r\n"
    "2023-11-16 18:15:51.2224670,879,55"
)


def test_azure_2023_seven_digits_crlf_no_final_newline(read: Read) -> None:
    result = read(AZURE_2023)
    assert result.trace.arrival_s.tolist() == [0.0, 4.314579, 4.541877]
    assert result.trace.prompt_tokens.tolist() == [374, 396, 879]
    assert result.trace.output_tokens.tolist() == [44, 109, 55]
    assert (result.report.format, result.report.time_unit) == ("azure", "date-time")
    assert result.report.notes == ("CRLF line ends: read as line ends",)
    assert (result.report.rows_read, result.report.rows_kept) == (3, 3)


def test_azure_2024_zones_and_stamps_without_fraction(read: Read) -> None:
    result = read(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 00:00:01+00:00,2399,6\n"
        "2024-05-10 00:00:02.5+00:00,100,0\n"
    )
    assert result.report.format == "azure"
    assert result.trace.arrival_s.tolist() == [0.0, 0.99007]
    (dropped,) = result.report.dropped
    assert (dropped.count, dropped.lines) == (1, (4,))
    assert dropped.reason == "output: zero tokens (failed request)"


def test_azure_lmm_2025_gzip_has_image_classes(read: Read) -> None:
    text = (
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
        "2024-10-16 16:00:00.5,2,1234,10\n2024-10-16 16:00:01.5,0,50,20\n"
    )
    result = read(gzip.compress(text.encode()))
    assert result.report.format == "azure-lmm"
    assert result.trace.class_names == ("text", "images")
    assert result.trace.classes.tolist() == [1, 0]
    assert result.report.notes[0] == "gzip: unpacked"


def test_mooncake_milliseconds_and_hashes_per_512(read: Read) -> None:
    rows = [
        {"timestamp": 0, "input_length": 600, "output_length": 500, "hash_ids": [0, 1]},
        {"timestamp": 3000, "input_length": 512, "output_length": 3, "hash_ids": [0]},
    ]
    result = read("\n".join(json.dumps(r) for r in rows))
    assert (result.report.format, result.report.time_unit) == ("mooncake", "ms")
    assert result.trace.arrival_s.tolist() == [0.0, 3.0]
    assert result.trace.prefix_block_tokens == 512
    assert result.trace.prefix_hashes is not None and result.trace.prefix_offsets is not None
    assert result.trace.prefix_hashes.tolist() == [0, 1, 0]
    assert result.trace.prefix_offsets.tolist() == [0, 2, 3]


def test_mooncake_full_64_bit_hashes_and_too_many_of_them(read: Read) -> None:
    row = {
        "timestamp": 0,
        "input_length": 512,
        "output_length": 5,
        "hash_ids": [2**64 - 1, 5],
    }
    result = read(json.dumps(row) + "\n")
    assert result.trace.prefix_hashes is not None
    assert result.trace.prefix_hashes.tolist() == [-1]
    (repaired,) = result.report.repaired
    assert repaired.reason == "more prefix hashes than prompt blocks: cut"
    assert repaired.lines == (1,)


def test_qwen_bailian_float_seconds_hashes_per_16(read: Read) -> None:
    row = {
        "chat_id": 159,
        "parent_chat_id": 55,
        "timestamp": 61.114,
        "input_length": 33,
        "output_length": 132,
        "type": "text",
        "turn": 2,
        "hash_ids": [1089, 1090, 1091],
    }
    second = {**row, "timestamp": 62.614, "type": "search"}
    result = read(json.dumps(row) + "\n" + json.dumps(second) + "\n")
    assert (result.report.format, result.report.time_unit) == ("qwen-bailian", "s")
    assert result.trace.arrival_s == pytest.approx([0.0, 1.5])
    assert result.trace.prefix_block_tokens == 16
    assert [result.trace.class_names[c] for c in result.trace.classes] == ["text", "search"]


@pytest.mark.parametrize("extra", ["", "Session ID,Elapsed time,"])
def test_burstgpt_zero_response_is_a_failed_request(read: Read, extra: str) -> None:
    cells = "7,1.5," if extra else ""
    result = read(
        f"Timestamp,{extra}Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        f"5,{cells}ChatGPT,472,18,490,Conversation log\n"
        f"45,{cells}ChatGPT,1087,0,1087,Conversation log\n"
        f"118,{cells}GPT-4,417,276,693,API log\n"
    )
    assert (result.report.format, result.report.time_unit) == ("burstgpt", "s")
    assert result.trace.arrival_s.tolist() == [0.0, 113.0]
    assert result.trace.class_names == ("API log", "Conversation log")
    assert result.report.dropped[0].lines == (3,)
    assert "failed request" in result.report.dropped[0].reason


def test_splitwise_sim(read: Read) -> None:
    result = read(
        "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
        "0,2,0,1,1,4096,32\n1,2,0,3.25,1,2048,8\n"
    )
    assert result.report.format == "splitwise-sim"
    assert result.trace.arrival_s.tolist() == [0.0, 2.25]
    assert result.trace.prompt_tokens.tolist() == [4096, 2048]


def test_vidur_with_times(read: Read) -> None:
    result = read("arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.314579,396,109\n")
    assert (result.report.format, result.report.time_unit) == ("vidur", "s")
    assert result.trace.arrival_s.tolist() == [0.0, 4.314579]


VIDUR_LENGTHS = (
    "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
    "3772,54,3826,69.85\n2015,156,2171,12.9\n"
)


def test_vidur_without_times_needs_a_rate(read: Read) -> None:
    with pytest.raises(TraceError, match="no arrival times; give a rate"):
        read(VIDUR_LENGTHS)
    result = read(VIDUR_LENGTHS, rate_rps=2.0)
    assert result.trace.num_requests == 2 and result.trace.arrival_s[0] == 0
    assert "Poisson arrivals at 2 requests/s, seed 0" in result.report.time_evidence
    assert read(VIDUR_LENGTHS, rate_rps=2.0).trace.digest() == result.trace.digest()


@pytest.mark.parametrize("as_lines", [True, False])
def test_sharegpt_estimates_lengths_and_drops_half_conversations(
    read: Read, as_lines: bool
) -> None:
    rows = [
        {"id": "a", "conversations": [{"from": "human", "value": "x" * 401}, {"value": "y" * 80}]},
        {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
        {"id": "c", "conversations": []},
        {"id": "d", "conversations": [{"value": "ab"}, {"value": "cd"}, {"value": "ef"}]},
    ]
    text = "\n".join(json.dumps(r) for r in rows) if as_lines else json.dumps(rows, indent=1)
    with pytest.raises(TraceError, match="give a rate"):
        read(text)
    result = read(text, rate_rps=1.0)
    assert result.report.format == "sharegpt"
    assert result.trace.prompt_tokens.tolist() == [101, 1]
    assert result.trace.output_tokens.tolist() == [20, 1]
    assert result.report.dropped[0].lines == (2, 3)
    assert any("4 characters per token" in note for note in result.report.notes)


def test_chat_messages_when_the_format_is_given(read: Read) -> None:
    row = {"messages": [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": "e"}]}
    result = read(json.dumps(row), fmt="sharegpt", rate_rps=1.0)
    assert result.trace.prompt_tokens.tolist() == [1]


def test_own_parquet(read: Read, tmp_path: Path) -> None:
    trace = Trace.build([0.0, 2.0], [5, 6], [7, 8], source="somewhere")
    trace.save(tmp_path / "own.parquet")
    result = read((tmp_path / "own.parquet").read_bytes())
    assert result.trace.digest() == trace.digest()
    assert result.report.format == "stallfree"


@pytest.mark.parametrize("container", ["csv", "jsonl", "json", "parquet", "csv.gz"])
def test_any_table_with_a_column_map(read: Read, tmp_path: Path, container: str) -> None:
    frame = pd.DataFrame({"when": [1500, 2500, 4500], "in": [10, 20, 30], "out": [1, 2, 3]})
    path = tmp_path / "table"
    if container == "parquet":
        frame.to_parquet(path)
    elif container.startswith("csv"):
        compression = "gzip" if container.endswith("gz") else None
        frame.to_csv(path, index=False, compression=compression)
    else:
        frame.to_json(path, orient="records", lines=container == "jsonl")
    mapping = ColumnMap.parse("arrival=when, prompt=in, output=out, unit=ms")
    result = read(path.read_bytes(), mapping=mapping)
    assert result.report.format == "generic"
    assert result.trace.arrival_s.tolist() == [0.0, 1.0, 3.0]
    assert result.trace.output_tokens.tolist() == [1, 2, 3]


def test_map_of_priority_class_and_prefix(read: Read) -> None:
    rows = [
        {"t": 0.0, "i": 40, "o": 1, "tier": 1, "team": "red", "h": [1, 2]},
        {"t": 1.0, "i": 20, "o": 2, "tier": 0, "team": "blue", "h": [1]},
    ]
    text = "\n".join(json.dumps(r) for r in rows)
    mapping = ColumnMap.parse(
        "arrival=t,prompt=i,output=o,unit=s,priority=tier,request_class=team,prefix=h,block=32"
    )
    trace = read(text, mapping=mapping).trace
    assert trace.priority is not None and trace.priority.tolist() == [1, 0]
    assert [trace.class_names[c] for c in trace.classes] == ["red", "blue"]
    assert trace.prefix_block_tokens == 32 and trace.prefix_offsets is not None
    assert trace.prefix_offsets.tolist() == [0, 2, 3]


def test_map_of_acceptance(read: Read) -> None:
    mapping = ColumnMap.parse("arrival=t,prompt=i,output=o,unit=s,acceptance=a")
    trace = read("t,i,o,a\n1.0,10,2,0.25\n0.0,20,3,0.75\n", mapping=mapping).trace
    assert trace.acceptance_rate is not None
    assert trace.acceptance_rate.tolist() == [0.75, 0.25]
    assert trace.slice(1.0, 2.0).acceptance_rate.tolist() == [0.25]  # type: ignore[union-attr]
    assert trace.cap(5, 1).acceptance_rate is trace.acceptance_rate
    with pytest.raises(TraceError, match="must be from 0 to 1; request 1 has 2"):
        read("t,i,o,a\n0.0,10,2,0.25\n1.0,20,3,2.5\n", mapping=mapping)


@pytest.mark.parametrize(
    "header",
    [
        "arrival_time,prompt_len,output_len",
        "Arrival Time,INPUT_TOKENS,Completion-Tokens",
        "ts,isl,osl",
    ],
)
def test_aliases_in_any_case(read: Read, header: str) -> None:
    result = read(f"{header}\n0.5,10,1\n1.0,20,2\n")
    assert result.report.format == "generic"
    assert result.trace.arrival_s.tolist() == [0.0, 0.5]
    assert list(result.report.columns.values()) == header.split(",")


def test_parquet_with_zoned_stamps(read: Read, tmp_path: Path) -> None:
    stamps = pd.to_datetime(["2024-01-01T00:00:01+01:00", "2024-01-01T00:00:00+01:00"])
    pd.DataFrame(
        {"timestamp": stamps, "prompt_tokens": [1, 2], "output_tokens": [3, 4]}
    ).to_parquet(tmp_path / "p")
    result = read((tmp_path / "p").read_bytes())
    assert result.trace.arrival_s.tolist() == [0.0, 1.0]
    assert result.trace.prompt_tokens.tolist() == [2, 1]
    assert (result.report.repaired[0].lines, result.report.place) == ((2,), "record")


def test_format_can_be_overridden(read: Read) -> None:
    text = "timestamp,input_length,output_length\n1000,10,1\n3000,20,2\n"
    rows = [dict(timestamp=t, input_length=9, output_length=9, hash_ids=[1]) for t in (0, 1000)]
    lines = "\n".join(json.dumps(r) for r in rows)
    assert read(lines).trace.duration_s == 1.0
    assert read(lines, fmt="qwen-bailian").trace.duration_s == 1000.0
    assert read(text, fmt="generic").report.format == "generic"


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(read: Read, delimiter: str) -> None:
    text = "arrival_s,prompt_tokens,output_tokens\n0,10,1\n2,20,2\n".replace(",", delimiter)
    assert read(text).trace.prompt_tokens.tolist() == [10, 20]


def test_a_rate_stretches_recorded_times_unless_told_not_to(read: Read) -> None:
    stretched = read(AZURE_2023, rate_rps=2.0)
    assert stretched.trace.rate_rps == pytest.approx(2.0)
    assert any("times stretched from 0.4403 to 2" in note for note in stretched.report.notes)
    assert read(AZURE_2023, rate_rps=2.0, stretch=False).trace.duration_s == 4.541877
