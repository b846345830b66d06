"""The table of all runs of the storage folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.data import Run
from dashboard.figures.digits import digits
from dashboard.words.found import figures_of, model_name, slo_in_words, source_of_figures
from profiler.errors import StallfreeError
from tuner.results import Results, RunFolder
from tuner.schema import Study
from tuner.search.run_state import Phase
from tuner.study import load_study

LIVE = (Phase.RUNNING, Phase.QUEUED)
COLUMNS = (
    "study",
    "state",
    "progress",
    "SLOs met",
    "goodput, requests/s (default)",
    "TTFT p99, ms (default)",
    "ITL p99, ms (default)",
    "evidence",
    "engine",
    "traffic",
    "SLOs",
    "doing",
    "date",
)
"""of the table; figures are the recommended configuration's, with the engine default's beside"""


def table(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run, the latest first. A damaged run says so in its row."""
    rows = [_row(run) for run in runs]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.sort_values("date", ascending=False, kind="stable", ignore_index=True)


def is_live(run: Run) -> bool:
    """Whether what the run says may change by itself."""
    return run.state.phase in LIVE


def _row(run: Run) -> dict[str, Any]:
    state = run.state
    share = state.done / state.total if state.total else None
    row = dict.fromkeys(COLUMNS, "") | {
        "study": run.name,
        "state": str(state.phase),
        "progress": None if state.phase is Phase.FINISHED else share,
        "doing": state.error or (state.stage if state.phase is not Phase.FINISHED else ""),
        "date": (state.since or "")[:16].replace("T", " "),
    }
    try:
        if run.has_results:
            stamp = run.folder.results_file.stat().st_mtime_ns
            return row | _of_results(run.folder.path, stamp)
        return row | _of_study(run.folder.path, run.folder.study_file.stat().st_mtime_ns)
    except (StallfreeError, OSError) as error:
        return row | {"doing": str(error)}


@st.cache_data(max_entries=2000, show_spinner=False)
def _of_results(path: Path, stamp: int) -> dict[str, Any]:
    del stamp
    results = RunFolder(path).load_results()
    engine = results.provenance.get("engine") or {}
    return {
        **_figures(results),
        "SLOs met": ("yes" if results.meets_slo else "no"),
        "evidence": source_of_figures(results).value,
        "engine": _engine(str(engine.get("engine")), str(engine.get("model") or "")),
        "traffic": str(results.provenance.get("trace_source", "")),
        "SLOs": slo_in_words(results.slo),
        "date": str(results.provenance.get("date", ""))[:16].replace("T", " "),
    }


def _figures(results: Results) -> dict[str, str]:
    default, best = figures_of(results)
    return {
        heading: f"{digits(best.get(name), scale)} ({digits(default.get(name), scale)})"
        for heading, name, scale in (
            ("goodput, requests/s (default)", "goodput_rps", 1.0),
            ("TTFT p99, ms (default)", "ttft_p99_s", 1e3),
            ("ITL p99, ms (default)", "itl_p99_s", 1e3),
        )
    }


@st.cache_data(max_entries=2000, show_spinner=False)
def _of_study(path: Path, stamp: int) -> dict[str, str]:
    del stamp
    folder = RunFolder(path)
    study = load_study(folder.study_file, folder.base)
    slo = {"default": study.slo.default, **study.slo.classes}
    return {
        "engine": _engine(study.engine.name, study.engine.model),
        "traffic": _traffic(study),
        "SLOs": slo_in_words({name: dict(limits) for name, limits in slo.items()}),
    }


def _engine(name: str, model: str) -> str:
    return f"{name}, {model_name(model)}" if model else name


def _traffic(study: Study) -> str:
    traffic = study.traffic
    if traffic.path is not None:
        return Path(traffic.path).name
    return f"like {traffic.like}" if traffic.like else f"mix of {', '.join(traffic.mix or {})}"
