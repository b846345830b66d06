"""Traces from a browser: kept as Parquet without text, or refused."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import options
from dashboard.uploads import convert
from dashboard.uploads.kept import keep_trace, kept_traces
from profiler.errors import TraceError
from profiler.traffic.trace import Trace

ROOT = Path(__file__).resolve().parents[3]
ROWS = b"arrival,prompt,output,text\n0,10,5,a secret\n1.5,20,6,another secret\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A storage folder of a server that takes 1 MB."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options.use(options.Options(tmp_path, allow_launch=True, max_upload_mb=1))
    yield tmp_path
    options.use(options.Options())


def files(place: Path) -> list[str]:
    return sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file())


def test_a_trace_is_kept_without_text(place: Path) -> None:
    kept = keep_trace(place, "mine", gzip.compress(ROWS))
    assert files(place) == ["uploads/mine.parquet"]
    assert kept_traces(place) == ["uploads/mine.parquet"]
    trace = Trace.load(kept)
    assert trace.prompt_tokens.tolist() == [10, 20]
    assert trace.source == "mine (uploaded)"
    assert b"secret" not in kept.read_bytes()


def test_what_was_given_is_never_where_runs_are_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is ended meanwhile would leave it there."""
    seen: list[Path] = []

    def look(given: Path, made: Path) -> None:
        seen.append(given)
        convert.convert(given, made)

    monkeypatch.setattr("dashboard.uploads.kept.convert", look)
    keep_trace(place, "mine", ROWS)
    assert not seen[0].is_relative_to(place)


def test_what_is_no_trace_leaves_nothing(place: Path) -> None:
    with pytest.raises(TraceError, match="no arrival column") as refused:
        keep_trace(place, "mine", b"a,b\n1,2\n")
    assert "\n" not in str(refused.value)
    assert files(place) == []


@pytest.mark.parametrize("name", ["../mine", "/mine", "", ".mine", "a/b", "a\n", "x" * 65, "ä"])
def test_a_name_is_no_path(place: Path, name: str) -> None:
    with pytest.raises(TraceError, match="a trace's name has letters"):
        keep_trace(place, name, ROWS)
    assert files(place) == []


def test_a_name_is_given_once_and_no_link_is_followed(place: Path) -> None:
    (place / "uploads").mkdir()
    (place / "uploads" / "mine.parquet").symlink_to(place / "elsewhere")
    with pytest.raises(TraceError, match="there is a trace called mine already"):
        keep_trace(place, "mine", ROWS)
    assert not (place / "elsewhere").exists()


def test_a_large_file_is_refused(place: Path) -> None:
    with pytest.raises(TraceError, match=r"at most 1 MB, got 1\.0"):
        keep_trace(place, "mine", b"x" * (1 << 20) + b"y")


def test_a_file_that_unpacks_to_too_much_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that reads it ends, not the server."""
    monkeypatch.setattr(convert, "_MOST_MEMORY_MB", 1000)
    keep_trace(place, "small", ROWS)
    bomb = gzip.compress(bytes(64 << 20)) * 8
    with pytest.raises(TraceError, match="too large when unpacked"):
        keep_trace(place, "mine", bomb)
    assert files(place) == ["uploads/small.parquet"]


def test_traces_of_runs_are_offered(place: Path) -> None:
    (place / "run").mkdir()
    (place / "run" / "trace.parquet").touch()
    assert kept_traces(place) == ["run/trace.parquet"]
