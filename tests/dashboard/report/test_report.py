"""The report: one file that needs nothing else, whatever a section does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest

from dashboard.report import write
from dashboard.report.page import page
from dashboard.report.section import Reported, Section
from profiler.errors import ResultsError
from tuner.results import RunFolder
from tuner.search.progress import SilentUi

_EVIL = "<script>alert(1)</script>"


def test_text_and_tables_are_escaped() -> None:
    section = Section(_EVIL, _EVIL, tables=((_EVIL, pd.DataFrame({_EVIL: [_EVIL]})),))
    html = page(_EVIL, _EVIL, [section])
    assert _EVIL not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 9


def test_same_sections_same_bytes_and_nothing_is_fetched() -> None:
    figure = go.Figure().add_scatter(x=[1, 2], y=[3, 4], name="a line")
    section = Section("Front", "one\n\ntwo", (figure,), (("rows", pd.DataFrame({"x": [1.23456]})),))
    html = page("title", "source", [section])
    assert html == page("title", "source", [section])
    assert "<p>one</p><p>two</p>" in html and ">1.235<" in html and '"a line"' in html
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", html)


def test_a_section_that_fails_says_why(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ResultsError("no profile; profile again")

    monkeypatch.setattr(
        write, "SECTIONS", {"bad": fails, "none": lambda *_: None, "good": lambda *_: Section("B")}
    )
    folder = RunFolder(finished_run)
    reported = Reported(folder, folder.load_results(), "recommended")
    html = write.report(reported, SilentUi())
    assert "Not available: no profile; profile again" in html
    assert re.findall(r"<h2[^>]*>(\w+)<", html) == ["bad", "B"]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    code = "from tuner.cli.app import main; main()"
    command = [sys.executable, "-c", code, "report", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_command_writes_every_section(finished_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = run(finished_run, "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    html = out.read_text(encoding="utf-8")
    assert json.loads(done.stdout) == {"report": str(out), "bytes": len(html.encode())}
    assert "Not available" not in html
    assert "Stallfree: small" in html


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "report.pdf"], "--out must be an HTML file, got 'report.pdf'"),
        (["--pick", "99999"], "no trial to pick as 99999"),
    ],
)
def test_what_it_refuses(finished_run: Path, words: list[str], said: str) -> None:
    done = run(finished_run, *words)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1
