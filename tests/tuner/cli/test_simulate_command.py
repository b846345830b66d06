"""`stallfree simulate`: charts, explanations and load curves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tuner.cli.charts import Series, chart, chart_size, is_wide
from tuner.cli.run_charts import peaks

TRACE = ["--trace", "t.csv", "--latency-model", "example-8b"]


@pytest.fixture
def in_trace_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forty requests, four a second; every tenth has a long prompt."""
    rows = "\n".join(f"{t / 4},{6000 if t % 10 == 9 else 200},100" for t in range(40))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_charts_come_with_the_figures(stallfree, in_trace_folder: Path) -> None:
    code, out, err = stallfree("simulate", *TRACE, "--slo", "ttft_p99=2,itl_p99_s=0.05")
    assert code == 0, err
    titles = ("TTFT, ms: cumulative", "ITL, ms: cumulative", "waiting and running", "KV blocks in")
    assert all(title in out for title in titles)
    assert "| SLO 2000 ms" in out and "| SLO 50 ms" in out
    assert "default.ttft_p99_s against its limit" in out
    assert max(len(line) for line in out.splitlines()) <= 80
    plain = stallfree("simulate", *TRACE, "--no-plots")[1]
    assert "cumulative" not in plain and "ttft_p99_s" in plain


def test_explain(stallfree, in_trace_folder: Path) -> None:
    code, out, err = stallfree("simulate", *TRACE, "--explain", "worst-itl", "--json")
    assert code == 0, err
    (story,) = json.loads(out)["stories"]
    step = story["steps"][0]
    assert step["chunks"][0]["request"] % 10 == 0
    assert step["chunks"][0]["tokens"] > 5000
    assert story["seconds"] == pytest.approx(step["end_s"] - step["start_s"])
    text = stallfree("simulate", *TRACE, "--explain", "worst-itl")[1]
    assert " ".join(text.split()).startswith(story["sentence"])
    assert "the steps (#N is request N)" in text
    both = stallfree("simulate", *TRACE, "--explain", "request:9")[1]
    assert "The first token of request 9 took" in both and "two tokens of request 9" in both


def test_explain_a_study(stallfree, in_study_folder: Path) -> None:
    code, out, err = stallfree("simulate", in_study_folder, "--explain", "worst-ttft", "--json")
    assert code == 0, err
    found = json.loads(stallfree("simulate", in_study_folder, "--json")[1])
    (story,) = json.loads(out)["stories"]
    assert story["seconds"] >= found["ttft_p99_s"]


def test_load_curve_of_a_study(stallfree, in_study_folder: Path, tmp_path: Path) -> None:
    """The default and the recommendation of the finished run come by themselves."""
    code, out, err = stallfree(
        "simulate", in_study_folder, "--load-curve", "--set", "max_num_seqs=4",
        "--config", "tiny:max_num_batched_tokens=128,max_num_seqs=16",
        "--plot", tmp_path / "load.html", "--json",
    )  # fmt: skip
    assert code == 0, err
    curves = {c["name"]: c for c in json.loads(out)["curves"]}
    assert list(curves) == ["engine default", "recommended", "--set", "tiny"]
    run = json.loads(stallfree("show", in_study_folder, "--json")[1])
    assert curves["recommended"]["settings"] == run["recommended"]["settings"]
    assert curves["tiny"]["settings"]["max_num_batched_tokens"] == 128
    assert [p["factor"] for p in curves["tiny"]["points"]] == [0.25 * i for i in range(1, 9)]
    point = curves["engine default"]["points"][0]
    assert {"ttft_p99_s", "itl_p99_s", "goodput_rps", "slo_attainment", "meets_slo"} <= set(point)
    page = (tmp_path / "load.html").read_text()
    assert "tiny" in page and "TTFT p99, ms" in page
    assert re.search(r"<script[^>]+src=", page) is None


def test_load_curve_on_a_terminal(stallfree, in_trace_folder: Path) -> None:
    words = ["simulate", *TRACE, "--load-curve"]
    code, out, err = stallfree(*words, "--slo", "itl_p99=0.1")
    assert code == 0, err
    assert "engine default: all defaults" in out
    assert "highest arrival rate that meets the SLOs" in out
    assert "goodput, requests/s, against requests/s" in out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "No SLOs, so no highest rate; give --slo" in stallfree(*words, "--no-plots")[1]


@pytest.mark.parametrize("text", ["ttft=1", "ttft_p99", "itl_p99=0", "itl_p99=soon"])
def test_slos_that_are_none(stallfree, in_trace_folder: Path, text: str) -> None:
    code, _, err = stallfree("simulate", *TRACE, "--slo", text)
    assert code == 2
    assert err.startswith("error: --slo needs NAME=SECONDS with names ttft_p99, itl_p99, tpot_p99")


def test_a_chart_fits_the_terminal() -> None:
    for width, expected in ((20, 40), (80, 80), (300, 110)):
        size = chart_size(Console(width=width))
        assert size[0] == expected
        text = chart("a title", [Series("x", "some", [1.0, 900.0], [2.0, 3.0])], size, log=["x"])
        assert max(len(line) for line in text.plain.splitlines()) <= expected
        assert "a title" in text.plain and "x some" in text.plain
    assert is_wide([1.0, 30.0]) and not is_wide([1.0, 10.0]) and not is_wide([0.0, 30.0])


def test_peaks_keep_the_largest_value_of_every_column() -> None:
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(5.0, 25.0, 500))
    values = rng.integers(0, 1000, 500)
    middles, found = peaks(time, values, 20)
    edges = np.linspace(time[0], time[-1], 21)
    place = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, 19)
    slow = [values[place == i].max() for i in range(20) if (place == i).any()]
    assert found.tolist() == slow
    assert (np.diff(middles) > 0).all()
    assert peaks(np.array([3.0]), np.array([7]), 20)[1].tolist() == [7.0]
