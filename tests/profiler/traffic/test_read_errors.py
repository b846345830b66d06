"""Bad files: each is one line that names the place, the value and the way out."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profiler.errors import TraceError
from profiler.traffic.columns import ColumnMap
from profiler.traffic.readers import read_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROW = "2023-11-16 18:15:46.6805900,374,44\n"
MOONCAKE = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
GENERIC = "arrival_s,prompt_tokens,output_tokens\n"


def error_of(tmp_path: Path, content: str | bytes, **options: object) -> str:
    path = tmp_path / "bad.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TraceError) as caught:
        read_trace(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message and "bad.csv" in message
    return message


CASES = {
    "empty": ("", "the file is empty"),
    "blank": (" \n\n", "the file is empty"),
    "only a byte order mark": (b"\xef\xbb\xbf", "the file is empty"),
    "blank before the header": ("\n" + HEADER + ROW, "line 1: blank"),
    "header only": (HEADER, "a header and no rows"),
    "header without line end": (HEADER.strip(), "a header and no rows"),
    "rows of nothing but commas": (HEADER + "\n,,\n", "line 3: ContextTokens is ''"),
    "header and blank lines": (HEADER + "\r\n\n", "a header and no rows"),
    "negative length": (HEADER + ROW + ROW.replace("44", "-44"), "line 3: .*'-44', negative"),
    "length in words": (HEADER + ROW.replace("374", "many"), "line 2: ContextTokens is 'many'"),
    "fraction of a token": (HEADER + ROW.replace("374", "3.5"), "line 2: .*'3.5', not a whole"),
    "blank length": (HEADER + ROW + ROW.replace("374", ""), "line 3: ContextTokens is ''"),
    "NaN length": (HEADER + ROW.replace("374", "NaN"), "line 2: ContextTokens is 'NaN'"),
    "infinite length": (HEADER + ROW.replace("374", "inf"), "line 2: ContextTokens is 'inf'"),
    "huge length": (HEADER + ROW.replace("374", "1" * 12), "line 2: .*above 2147483647"),
    "blank line does not shift the count": (
        HEADER + ROW + "\n" + ROW.replace("44", "x"),
        "line 4: GeneratedTokens is 'x'",
    ),
    "second header": (HEADER + ROW + HEADER, "line 3: ContextTokens is 'ContextTokens'"),
    "no time": (HEADER + ROW + "noon,1,1\n", "line 3: TIMESTAMP is 'noon', neither"),
    "NaN time": (GENERIC + "0,1,1\nnan,1,1\n", "line 3: arrival_s is 'nan'"),
    "infinite time": (GENERIC + "0,1,1\n-inf,1,1\n", "line 3: arrival_s is '-inf'"),
    "too many columns": (HEADER + ROW + "1,2,3,4\n", "line 3: 4 columns, but the header has 3"),
    "cut row": (HEADER + ROW + "2023-11-16", "line 3: 1 columns, but the header has 3"),
    "same name twice": ("a,a\n1,2\n", "two columns are called 'a'"),
    "all failed": (HEADER + ROW.replace("44", "0"), "all 1 rows have a zero length"),
    "broken JSON line": (MOONCAKE + MOONCAKE[:40] + "\n", "line 2: broken JSON"),
    "JSON line of another kind": (MOONCAKE + "[1]\n", r"line 2: a JSON object .*got '\[1\]'"),
    "mixed schemas": (
        MOONCAKE + '{"ts": 5, "prompt": 3}\n',
        "line 2: input_length is missing or NaN",
    ),
    "JSON word as length": (
        MOONCAKE + MOONCAKE.replace("600", '"six"'),
        "line 2: input_length is 'six'",
    ),
    "JSON list as length": (MOONCAKE + MOONCAKE.replace("600", "[6]"), "line 2: input_length is"),
    "JSON boolean as length": (MOONCAKE + MOONCAKE.replace("600", "true"), "line 2: .*is True"),
    "JSON NaN": (MOONCAKE.replace("600", "NaN"), "line 1: input_length is missing or NaN"),
    "hashes of another kind": (
        MOONCAKE + MOONCAKE.replace("[0, 1]", '["a"]'),
        r"line 2: hash_ids must be a list of 64-bit whole numbers, got \['a'\]",
    ),
    "hash too large": (MOONCAKE.replace("[0, 1]", f"[{2**64}]"), "64-bit whole numbers"),
    "broken JSON array": ('[{"a": 1},\n{"a": }]', "line 2: broken JSON"),
    "empty JSON array": ("[]", "an empty JSON array"),
    "JSON array of numbers": ("[1, 2]", "record 1: a JSON object"),
    "conversation of another kind": (
        '[{"conversations": "hello"}]',
        "record 1: conversations must be a list of turns, got 'hello'",
    ),
    "cut gzip": (gzip.compress((HEADER + ROW).encode())[:-12], "gzip data is cut off or damaged"),
    "damaged gzip": (b"\x1f\x8b" + b"junk" * 9, "gzip data is cut off or damaged"),
    "not UTF-8": (HEADER.encode() + b"\xff\xfe,1,1\n", "line 2: not UTF-8"),
    "cut Parquet": (b"PAR1" + b"\0" * 20, "not a readable Parquet file"),
}


@pytest.mark.parametrize(("content", "message"), CASES.values(), ids=CASES.keys())
def test_bad_file(tmp_path: Path, content: str | bytes, message: str) -> None:
    found = error_of(tmp_path, content)
    assert re.search(message, found), found


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(TraceError, match="no such file"):
            read_trace(path)


def test_missing_column_names_the_nearest_and_the_map(tmp_path: Path) -> None:
    message = error_of(tmp_path, "arrival_s,promt_tokens,output_tokens\n0,1,1\n")
    assert "no prompt column" in message and "--map prompt=promt_tokens" in message
    message = error_of(tmp_path, "a,b\n1,2\n")
    assert "no arrival column" in message and "among 'a', 'b'" in message
    message = error_of(tmp_path, GENERIC + "0,1,1\n", mapping=ColumnMap(prompt="in"))
    assert "no column 'in'" in message


def test_format_forced_on_another_file(tmp_path: Path) -> None:
    assert "no column 'TIMESTAMP'" in error_of(tmp_path, GENERIC + "0,1,1\n", fmt="azure")
    assert "is Parquet" in error_of(tmp_path, GENERIC + "0,1,1\n", fmt="stallfree")
    assert "no column 'conversations'" in error_of(tmp_path, GENERIC + "0,1,1\n", fmt="sharegpt")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "p")
    with pytest.raises(TraceError, match="not a trace of Stallfree's"):
        read_trace(tmp_path / "p", fmt="stallfree")


def test_empty_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"arrival_s": pa.array([], pa.float64())}), tmp_path / "p")
    with pytest.raises(TraceError, match="columns and no rows"):
        read_trace(tmp_path / "p")


def test_options_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(GENERIC + "0,1,1\n5,1,1\n")
    with pytest.raises(TraceError, match="unknown trace format 'azzure'; choose from"):
        read_trace(path, fmt="azzure")
    with pytest.raises(TraceError, match="a column map is for the format generic, not azure"):
        read_trace(path, fmt="azure", mapping=ColumnMap())
    with pytest.raises(TraceError, match="a rate must be above 0 requests/s, got nan"):
        read_trace(path, rate_rps=float("nan"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arival=ts", "keys arrival, prompt, .*got 'arival=ts'"),
        ("arrival", "got 'arrival='"),
        ("unit=minutes", "must be one of s, ms, us, ns; got 'minutes'"),
        ("prefix=h", "prefix hashes need both"),
        ("prefix=h,block=many", "block must be a number of tokens above 0, got 'many'"),
    ],
)
def test_bad_column_map(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        ColumnMap.parse(text)


def test_unit_for_date_times_is_refused(tmp_path: Path) -> None:
    message = error_of(tmp_path, HEADER + ROW, mapping=ColumnMap(unit="ms"))
    assert "leave unit out for date-times" in message


def test_line_numbers_of_json_skip_no_blank_lines(tmp_path: Path) -> None:
    assert "line 4" in error_of(tmp_path, MOONCAKE + "\n\n" + json.dumps([1]))
