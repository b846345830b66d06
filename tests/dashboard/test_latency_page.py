"""The Latency page: what it says on top, what can be chosen, and fleets."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from profiler.traffic.trace import Trace
from tests.dashboard.conftest import Look
from tuner.results import RunFolder


def test_leads_with_the_p99s_and_the_headroom(look: Look, storage: Path) -> None:
    app = look(storage, "latency", run="finished")
    first, second = (m.value for m in app.markdown[:2])
    assert "measured: TTFT p99" in first and "(limit 2,000 ms)" in first and "ITL p99" in first
    assert second.startswith("Predicted: ") and "meets the SLOs" in second
    assert "engine default" in second and "times today's" in second
    names = [h.value for h in app.subheader]
    assert names == [
        "Predicted, on all traffic",
        "Measured, over predicted",
        "With more or less traffic",
        "The engine over time",
    ]
    assert len(app.get("plotly_chart")) == 6
    assert not app.error and not app.warning


def test_compared_points_are_shown_and_the_tail_can_be(look: Look, storage: Path) -> None:
    results = RunFolder(storage / "finished").load_results()
    known = (results.recommended.settings, results.default.settings)
    other = next(p["number"] for p in results.front if p["settings"] not in known)
    app = look(storage, "latency", run="finished", **{"with": f"{other},99999"})
    points = list(app.dataframe[0].value["point"])
    assert points[:3] == ["recommended", "engine default", f"trial {other}"]
    app.radio[0].set_value("slower than a latency").run()
    assert not app.exception
    assert "% of all longer" in app.get("plotly_chart")[0].proto.spec


def test_a_point_that_the_engine_refuses_is_said(look: Look, storage: Path, tmp_path: Path) -> None:
    shutil.copytree(storage / "finished", tmp_path / "run")
    plain = json.loads((tmp_path / "run" / "results.json").read_text())
    plain["front"][1]["settings"] = {"max_num_batched_tokens": 8, "max_num_seqs": 64}
    (tmp_path / "run" / "results.json").write_text(json.dumps(plain))
    number = plain["front"][1]["number"]
    app = look(tmp_path, "latency", run="run", point=str(number))
    assert not app.exception and not app.error
    assert any(f"trial {number} cannot be simulated" in w.value for w in app.warning)
    assert f"trial {number} has no load curve" in app.markdown[1].value


def test_a_fleet_says_what_there_is_not(look: Look, fleet_place: Path) -> None:
    app = look(fleet_place, "latency")
    assert any("not kept for fleets" in c.value for c in app.caption)
    assert "meets the SLOs" in app.markdown[1].value
    assert set(app.dataframe[0].value["figure"]) == {"TTFT", "ITL"}


def test_classes_of_requests_with_a_limit_each(look: Look, storage: Path, tmp_path: Path) -> None:
    """One class has a limit on TTFT alone, the other on ITL alone; both pages take it."""
    shutil.copytree(storage / "finished", tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    trace = Trace.load(folder.trace)
    split = np.arange(trace.num_requests) % 2
    replace(trace, request_class=split, class_names=("chat", "code")).save(folder.trace)
    slo = {"chat": {"ttft_p99_s": 0.4}, "code": {"itl_p99_s": 0.05}}
    folder.save_results(replace(folder.load_results(), slo=slo))
    app = look(tmp_path, "latency", run="run")
    assert not app.exception and not app.error
    assert "SLO code 50 ms" in app.get("plotly_chart")[1].proto.spec
    whole = app.dataframe[0].value["samples"][0]
    app.radio[0].set_value("chat").run()
    assert not app.exception
    assert app.dataframe[0].value["samples"][0] == whole - whole // 2
    assert "SLO chat 400 ms" in app.get("plotly_chart")[0].proto.spec
    assert "SLO code" not in app.get("plotly_chart")[1].proto.spec
    app = look(tmp_path, "why", run="run")
    assert not app.exception and not app.error
