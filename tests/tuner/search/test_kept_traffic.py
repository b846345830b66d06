"""How the traffic was read stays with the run."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.conftest import STUDY
from tuner.results import RunFolder
from tuner.search.progress import SilentUi
from tuner.search.stages import run_trace
from tuner.search.tune import begin
from tuner.study import load_study


def _study(place: Path, traffic: dict[str, object]) -> Path:
    path = place / "study.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(STUDY) | {"traffic": traffic}))
    return path


def test_the_report_of_reading_is_kept_and_goes_with_the_run(tmp_path: Path) -> None:
    rows = ["0,10,2", "1,20,0", "2,30,3"]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    study, folder = _study(tmp_path, {"path": "t.csv"}), RunFolder(tmp_path / "run")
    begin(load_study(study), folder, study, resume=False, fresh=False)
    trace = run_trace(load_study(study), folder, SilentUi())
    report = json.loads(folder.trace_report.read_text())
    assert (report["file"], report["rows_read"], report["rows_kept"]) == ("t.csv", 3, 2)
    assert report["dropped"][0]["lines"] == [3]
    assert run_trace(load_study(study), folder, SilentUi()).digest() == trace.digest()
    begin(load_study(study), folder, study, resume=False, fresh=True)
    assert not folder.trace_report.exists()


def test_synthetic_traffic_has_none(tmp_path: Path) -> None:
    traffic = {"like": "azure-conv-2023", "rate_rps": 5.0, "duration_s": 20}
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    run_trace(load_study(_study(tmp_path, traffic)), folder, SilentUi())
    assert folder.trace.exists() and not folder.trace_report.exists()
