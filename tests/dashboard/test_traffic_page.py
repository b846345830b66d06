"""The page on the traffic."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dashboard.derive.traffic_shape import traffic_shape
from dashboard.words import traffic_words
from profiler.traffic.doctor import ReadReport, RowNote
from profiler.traffic.images import Images
from profiler.traffic.trace import Trace
from tests.dashboard.conftest import Look
from tests.dashboard.derive.test_newer_traffic import csv_of
from tests.dashboard.made_runs import copy_of
from tuner.results import RunFolder
from tuner.search.run_state import Phase, RunState


@pytest.fixture
def place(finished_run: Path, tmp_path: Path) -> Path:
    """A root of one run of its own, called run."""
    return copy_of(finished_run, tmp_path / "run").parent


def test_the_page_says_how_much_traffic_there_is(look: Look, storage: Path) -> None:
    app = look(storage, "traffic", run="finished")
    assert not app.exception and not app.error
    trace = Trace.load(RunFolder(storage / "finished").trace)
    assert f"{trace.num_requests:,} requests in" in app.markdown[0].value
    assert "made, not read from a file" in app.info[0].value
    assert any("records no prefixes" in m.value for m in app.markdown)
    lengths = app.dataframe[1].value
    assert lengths["max"].tolist() == [trace.prompt_tokens.max(), trace.output_tokens.max()]


def test_a_run_without_results_shows_its_traffic(look: Look, storage: Path) -> None:
    app = look(storage, "traffic", run="queued")
    assert not app.exception and "requests in" in app.markdown[0].value


def test_a_run_without_traffic_says_what_it_does(look: Look, place: Path) -> None:
    copy_of(place / "run", place / "young", RunState(Phase.QUEUED))
    (place / "young" / "trace.parquet").unlink()
    app = look(place, "traffic", run="young")
    assert not app.exception and "waits for a worker" in app.info[0].value


def test_how_it_was_read_is_shown(look: Look, place: Path) -> None:
    report = ReadReport(
        file="log.csv",
        format="generic",
        format_evidence="a column map was given",
        rows_read=1003,
        rows_kept=1000,
        dropped=(RowNote.of("output: never finished", (4, 9, 11)),),
        repaired=(),
        columns={"arrival": "ts"},
        time_unit="ms",
        time_evidence="given",
        notes=("<b>gzip</b>: unpacked",),
    )
    folder = RunFolder(place / "run")
    folder.trace_report.write_text(json.dumps(report.to_dict()))
    app = look(place, "traffic", run="run")
    table = next(d.value for d in app.dataframe if "how" in d.value)
    rows = dict(zip(table["what"], table["how"], strict=True))
    assert rows["rows"] == "1,003 read, 1,000 kept"
    assert rows["dropped"] == "3 rows: output: never finished (line 4, 9, 11)"
    assert rows["repaired"] == "none"
    folder.trace_report.write_text("{")
    assert "cannot be read" in look(place, "traffic", run="run").error[0].value


def test_a_run_of_before_reports_were_kept_says_so() -> None:
    assert "before Stallfree kept" in traffic_words.without_report("log.csv (generic)")
    assert "was made" in traffic_words.without_report("like azure-conv-2023 (gamma, seed 1)")


def test_an_uploaded_trace_is_compared_and_priced(look: Look, place: Path) -> None:
    derived = sorted(place.rglob("derived/*"))
    app = look(place, "traffic", run="run")
    own = Trace.load(RunFolder(place / "run").trace)
    short = Trace.build(own.arrival_s, own.prompt_tokens // 3 + 1, own.output_tokens)
    app.file_uploader[0].upload("../new.csv", csv_of(short), "text/csv")
    app.run()
    assert not app.exception and not app.error
    assert any("Drifted: prompt length" in w.value for w in app.warning)
    assert not any("goodput that is reachable" in m.value for m in app.markdown)
    next(b for b in app.button if "deployed configuration" in b.label).click()
    app.run()
    assert any("goodput that is reachable" in m.value for m in app.markdown)
    assert not list(place.rglob("upload")) and sorted(place.rglob("derived/*")) == derived


def test_a_wrong_upload_is_one_line(look: Look, place: Path) -> None:
    app = look(place, "traffic", run="run")
    app.file_uploader[0].upload("new.csv", b"hello\nworld\n", "text/csv")
    app.run()
    assert not app.exception
    assert len(app.error) == 1 and "\n" not in app.error[0].value


def test_another_run_is_compared(look: Look, place: Path) -> None:
    shutil.copytree(place / "run", place / "later")
    app = look(place, "traffic", run="run")
    next(r for r in app.radio).set_value("another run")
    app.run()
    box = next(s for s in app.selectbox if s.label == "Run")
    assert box.options == ["later"]
    box.set_value("later")
    app.run()
    assert any("Nothing has drifted" in s.value for s in app.success)


def test_sharing_images_and_classes_in_words() -> None:
    num = 60
    trace = Trace.build(
        np.arange(num, dtype=float),
        np.full(num, 100),
        np.full(num, 5),
        prefix_hashes=np.zeros(num, dtype=np.int64),
        prefix_offsets=np.arange(num + 1),
        prefix_block_tokens=50,
        images=Images.of_rows([[(10, 20, 1)]] * num),
    )
    shape = traffic_shape(trace)
    assert "49.2 % of the prompt tokens" in traffic_words.sharing_sentence(shape)
    assert "in 98.3 % of the requests" in traffic_words.sharing_sentence(shape)
    assert "60 images (1 different)" in str(traffic_words.images_sentence(shape))
    assert "more even than Poisson" in traffic_words.burst_sentence(shape)


@pytest.mark.parametrize(
    ("effect", "p", "drifted", "words"),
    [
        (0.5, 0.01, True, "drifted"),
        (0.5, 0.2, False, "may be chance"),
        (0.05, 0.01, False, "changed, too little to matter"),
        (0.05, 0.9, False, "the same"),
        (None, 0.2, False, "may be chance"),
    ],
)
def test_findings_have_a_verdict_in_words(
    effect: float | None, p: float, drifted: bool, words: str
) -> None:
    finding = {
        "quantity": "arrival rate", "of": "all", "before": 1.0, "after": None, "unit": "requests/s",
        "effect": effect, "least_effect": 0.15, "p": p, "drifted": drifted,
    }  # fmt: skip
    assert traffic_words.findings_table([finding])["verdict"].tolist() == [words]
