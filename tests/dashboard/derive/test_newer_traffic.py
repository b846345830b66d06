"""Newer traffic against a run's: findings, price, and files that are none."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.derive.traffic_drift import Newer, drift_price, traffic_drift
from dashboard.uploads.passing import FILE
from profiler.traffic.trace import Trace
from tuner.drift.traffic import compare_traffic
from tuner.results import RunFolder


def silent(done: int, total: int) -> None:
    del done, total


def csv_of(trace: Trace, factor: int = 1) -> bytes:
    """The trace as a table with prompts `factor` times as long, on the wire."""
    rows = zip(trace.arrival_s, factor * trace.prompt_tokens, trace.output_tokens, strict=True)
    lines = [f"{arrival:.6f},{prompt},{output}" for arrival, prompt, output in rows]
    return "\n".join(["arrival_s,prompt_tokens,output_tokens", *lines]).encode()


@pytest.fixture
def own(finished_run: Path) -> Trace:
    return Trace.load(RunFolder(finished_run).trace)


@pytest.fixture
def judged(finished_run: Path, tmp_path: Path) -> Callable[[bytes], dict[str, Any]]:
    def judge(content: bytes) -> dict[str, Any]:
        (tmp_path / FILE).write_bytes(content)
        return traffic_drift(tmp_path, str(finished_run), Newer(None), progress=silent)

    return judge


def test_the_same_traffic_has_not_drifted(
    finished_run: Path, own: Trace, judged: Callable[[bytes], dict[str, Any]], tmp_path: Path
) -> None:
    found = judged(csv_of(own))
    assert not any(f["drifted"] for f in found["findings"])
    assert found["requests"] == {"before": own.num_requests, "after": own.num_requests}
    assert found["lengths"]["prompt"]["before"] == found["lengths"]["prompt"]["after"]
    of_file = Newer(str(RunFolder(finished_run).trace))
    same = traffic_drift(tmp_path, str(finished_run), of_file, progress=silent)
    assert same["findings"] == compare_traffic(own, own).to_dict()["findings"]
    json.dumps(found, allow_nan=False)


def test_shorter_prompts_are_found(
    finished_run: Path, own: Trace, judged: Callable[[bytes], dict[str, Any]], tmp_path: Path
) -> None:
    short = Trace.build(own.arrival_s, own.prompt_tokens // 3 + 1, own.output_tokens)
    found = judged(gzip.compress(csv_of(short)))
    drifted = {f["quantity"] for f in found["findings"] if f["drifted"]}
    assert drifted == {"prompt length"}
    price = drift_price(tmp_path, str(finished_run), Newer(None), progress=silent)
    assert 0 < price["price"]["share_of_reachable_goodput"] <= 1
    assert "of the goodput that is reachable" in price["line"]
    json.dumps(price, allow_nan=False)


def test_columns_can_be_named(finished_run: Path, own: Trace, tmp_path: Path) -> None:
    named = csv_of(own).replace(b"arrival_s,prompt_tokens,output_tokens", b"a,b,c")
    (tmp_path / FILE).write_bytes(named)
    newer = Newer(None, "arrival=a,prompt=b,output=c,unit=s")
    found = traffic_drift(tmp_path, str(finished_run), newer, progress=silent)
    assert not any(f["drifted"] for f in found["findings"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"hello\nworld\n", "upload"),
        (b"\x1f\x8bnot gzip", "cut off or damaged"),
        (b"PAR1 nothing", "not a readable Parquet file"),
        (b"arrival_s,prompt_tokens,output_tokens\n0,1,1\n1,2,2\n", "at least 50"),
        (b"[" * 100_000, "upload"),
    ],
    ids=["empty", "words", "gzip", "parquet", "short", "deep"],
)
def test_a_wrong_file_is_one_line(
    judged: Callable[[bytes], dict[str, Any]], content: bytes, message: str
) -> None:
    error = judged(content)["error"]
    assert len(error.splitlines()) == 1
    assert re.search(message, error)


def test_a_fleet_has_no_price(fleet_place: Path, tmp_path: Path) -> None:
    run = fleet_place / "fleet"
    newer = Newer(str(RunFolder(run).trace))
    assert traffic_drift(tmp_path, str(run), newer, progress=silent)["findings"]
    assert "fleet" in drift_price(tmp_path, str(run), newer, progress=silent)["error"]
