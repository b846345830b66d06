"""Traffic and export as parts of a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.report import export, traffic
from dashboard.report.section import Reported
from tests.dashboard.made_runs import copy_of
from tests.tuner.export.planned import SPLIT, run_of
from tuner.results import RunFolder


def reported(folder: RunFolder, point: str = "recommended") -> Reported:
    return Reported(folder, folder.load_results(), point)


def silent(done: int, total: int) -> None:
    del done, total


def test_traffic(finished_run: Path, tmp_path: Path) -> None:
    found = traffic.section(reported(RunFolder(finished_run)), silent)
    assert found is not None and len(found.figures) == 4
    assert "requests in" in found.text and "made, not read" in found.text
    assert all("trace" in f.layout.annotations[-1].text for f in found.figures)
    assert [len(table) > 0 for _, table in found.tables] == [True, True]
    bare = RunFolder(copy_of(finished_run, tmp_path / "run"))
    bare.trace.unlink()
    assert traffic.section(reported(bare), silent) is None


@pytest.mark.parametrize("point", ["recommended", "0", "best"])
def test_export(finished_run: Path, point: str) -> None:
    found = export.section(reported(RunFolder(finished_run), point), silent)
    assert found is not None
    assert "vllm serve none" in found.text and f"--pick {point}" in found.text
    flags = dict(found.tables[0][1].values.tolist())
    assert flags["--max-model-len"] == "4096"
    assert "deployment.namespace" in found.tables[1][1]["setting"].tolist()


def test_a_fleet_has_a_command_for_each_pool(tmp_path: Path) -> None:
    results = run_of(SPLIT)
    found = export.section(Reported(RunFolder(tmp_path), results, "recommended"), silent)
    assert found is not None
    assert found.text.count("vllm serve") == 2
    assert found.tables[0][1]["pool"].nunique() == 2
