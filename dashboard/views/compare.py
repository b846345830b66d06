"""Two studies side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd
import streamlit as st

from dashboard import data, parts, tables
from dashboard.figures import style
from dashboard.figures.compare import fronts_figure
from dashboard.figures.digits import digits
from dashboard.words.found import differing, figures_of, model_name, slo_in_words, source_of_figures
from tuner.results import Results

_FIGURES = (
    ("goodput, requests/s", "goodput_rps", 1.0),
    ("TTFT p50, ms", "ttft_p50_s", 1e3),
    ("TTFT p99, ms", "ttft_p99_s", 1e3),
    ("ITL p50, ms", "itl_p50_s", 1e3),
    ("ITL p99, ms", "itl_p99_s", 1e3),
)


def show(run: data.Run, results: Results) -> None:
    """Choose another finished study, and see both."""
    others = [name for name, other in data.runs().items() if other.has_results and name != run.name]
    st.subheader("Compare with another study")
    if not others:
        st.caption("There is no other finished study in this storage folder.")
        return
    chosen = st.selectbox("Other study", ["(none)", *others], key=f"other-{run.name}")
    if chosen == "(none)":
        return
    second = data.run_named(chosen)
    other = second.results
    pair = {run.name: results, chosen: other}
    if results.provenance.get("trace_digest") != other.provenance.get("trace_digest"):
        st.caption("The two have different traffic: their figures answer different questions.")
    parts.show_table(figures_beside(pair), "beside", f"{run.name}-{chosen}-figures")
    differ = differing(results.recommended, other.recommended, (run.name, chosen))
    st.markdown("**Recommended settings that differ**" if len(differ) else "The settings agree.")
    if len(differ):
        parts.show_table(differ, "differing", f"{run.name}-{chosen}-settings")
    figure = fronts_figure(
        {run.name: _front_of(run.trials), chosen: _front_of(second.trials)},
        {name: tables.number_of(r, r.recommended) for name, r in pair.items()},
    )
    source = f"predicted; runs {run.name} and {chosen}; the recommended trial is drawn larger"
    parts.show_figure(style.finish(figure, source), "fronts")


def figures_beside(pair: Mapping[str, Results]) -> pd.DataFrame:
    """Figures of the recommended configuration of each study, with the engine default's, and what
    they are of."""
    rows = [
        {"figure (engine default)": heading}
        | {study: _with_default(results, name, scale) for study, results in pair.items()}
        for heading, name, scale in _FIGURES
    ]
    rows += [
        {"figure (engine default)": heading}
        | {study: of(results) for study, results in pair.items()}
        for heading, of in _FACTS.items()
    ]
    return pd.DataFrame(rows)


def _with_default(results: Results, name: str, scale: float) -> str:
    default, best = figures_of(results)
    return f"{digits(best.get(name), scale)} ({digits(default.get(name), scale)})"


_FACTS: dict[str, Callable[[Results], str]] = {
    "SLOs": lambda r: slo_in_words(r.slo),
    "SLOs met": lambda r: "yes" if r.meets_slo else "no",
    "evidence": lambda r: source_of_figures(r).value,
    "GPUs": lambda r: "-" if r.num_gpus is None else str(r.num_gpus),
    "model": lambda r: model_name(str(r.engine.get("model", ""))),
    "traffic": lambda r: str(r.provenance.get("trace_source", "")),
}


def _front_of(trials: pd.DataFrame) -> pd.DataFrame:
    """The rows of `tables.trials` that are on the front."""
    return trials[trials["kind"] == tables.FRONT]
