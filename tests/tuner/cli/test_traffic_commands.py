"""`stallfree traffic`: the three commands, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from profiler.errors import TraceError
from profiler.traffic.readers import read_trace
from profiler.traffic.trace import Trace
from tuner.cli.traffic import traffic_app

MESSY = "arrival_s,prompt_tokens,output_tokens\n0,10,1\n4,20,2\n\n2,30,3\n5,0,9\n" + "".join(
    f"{n},40,4\n" for n in range(6, 40)
)


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    path = tmp_path / "messy.csv"
    path.write_text(MESSY)
    return path


def call(*arguments: object) -> str:
    result = CliRunner().invoke(traffic_app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_inspect_tells_everything(messy: Path) -> None:
    text = " ".join(call("inspect", messy).replace("│", " ").split())
    assert "38 read, 37 kept" in text
    assert "1 rows: prompt: no tokens, nothing to serve (line 6)" in text
    assert "1 rows: out of order: sorted by arrival (line 5)" in text
    assert "1 rows: blank line skipped (line 4)" in text
    assert "grid of 1 s" in text and "Requests/s over time" in text and "p99.9" in text


def test_inspect_as_json(messy: Path) -> None:
    plain = json.loads(call("inspect", messy, "--json", "--rate", "5"))
    assert plain["report"]["rows_kept"] == plain["trace"]["figures"]["num_requests"] == 37
    assert plain["trace"]["figures"]["rate_rps"] == pytest.approx(5.0)
    assert len(plain["trace"]["rate_rps"]) == 60 and plain["trace"]["prefix_sharing"] is None


def test_inspect_of_one_request(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,1\n")
    assert "1 over 0.0 s" in call("inspect", path)
    assert json.loads(call("inspect", path, "--json"))["trace"]["gap_cv"] is None


def test_inspect_with_a_map(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n0,10,1\n1500,11,2\n")
    found = json.loads(
        call("inspect", path, "--json", "--map", "arrival=a,prompt=b,output=c,unit=ms")
    )
    assert found["trace"]["figures"]["duration_s"] == 1.5
    with pytest.raises(TraceError, match="no arrival column"):
        call("inspect", path)
    with pytest.raises(TraceError, match="unknown trace format"):
        call("inspect", path, "--format", "abc")


def test_convert_slices_then_scales_then_cuts(messy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    said = call(
        "convert", messy, "-o", out, "--start", 3, "--end", 30, "--rate", 2,
        "--max-prompt-tokens", 25, "--max-output-tokens", 3,
    )  # fmt: skip
    expected = read_trace(messy).trace.slice(3, 30).scale_rate(2.0).cap(25, 3)
    assert Trace.load(out).digest() == expected.digest()
    assert said == f"{out}: {expected.num_requests} requests over {expected.duration_s:.1f} s\n"


def test_convert_samples_and_says_what_it_dropped(messy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    result = CliRunner().invoke(
        traffic_app, ["convert", str(messy), "-o", str(out), "--sample", "9", "--seed", "4"]
    )
    assert "1 rows: prompt: no tokens, nothing to serve (line 6)" in result.stderr
    assert Trace.load(out).digest() == read_trace(messy).trace.sample(9, 4).digest()


def test_convert_gives_times_to_what_has_none(tmp_path: Path) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "out.parquet"
    rows = "10,1\n" * 500
    path.write_text("num_prefill_tokens,num_decode_tokens\n" + rows)
    call("convert", path, "-o", out, "--rate", 4)
    assert Trace.load(out).rate_rps == pytest.approx(4.0)


def test_synth_is_seeded(tmp_path: Path) -> None:
    one, two, other = (tmp_path / f"{n}.parquet" for n in ("one", "two", "other"))
    options = ("--arrivals", "gamma", "--rate", 3, "--duration", 100, "--gap-cv", 1.5)
    call("synth", "-o", one, *options)
    call("synth", "-o", two, *options)
    call("synth", "-o", other, *options, "--seed", 1)
    assert Trace.load(one).digest() == Trace.load(two).digest() != Trace.load(other).digest()


def test_synth_lengths_and_likeness(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    call("synth", "-o", out, "--like", "azure-conv-2023", "--duration", 300, "--output", "8")
    trace = Trace.load(out)
    assert set(trace.output_tokens.tolist()) == {8} and trace.prompt_tokens.max() > 3000
    assert trace.source == "like azure-conv-2023 (gamma, seed 0)"
    call("synth", "-o", out, "--rate", 2, "--duration", 300, "--prompt", "0=5,1=9")
    trace = Trace.load(out)
    assert trace.prompt_tokens.min() >= 5 and trace.prompt_tokens.max() <= 9
    assert trace.source == "synthetic (poisson, seed 0)"


def test_synth_refuses_what_it_cannot_make(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    with pytest.raises(TraceError, match="needs --rate and --duration, or --like"):
        call("synth", "-o", out, "--rate", 2)
    with pytest.raises(TraceError, match="no published figures called 'x'"):
        call("synth", "-o", out, "--like", "x")
    with pytest.raises(TraceError, match="arrivals must be one of"):
        call("synth", "-o", out, "--rate", 2, "--duration", 9, "--arrivals", "weekly")
