"""Latency of a point and its headroom, for a page and for a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard.derive import latency as derived
from dashboard.derive.load import capacity
from dashboard.derive.points import Points, name_of, points_of
from dashboard.figures import style
from dashboard.figures.digits import latency
from dashboard.figures.latency import (
    METRICS,
    cumulative_figure,
    over_time_figure,
    tail_figure,
    tall,
)
from dashboard.figures.load import capacity_figure, headroom
from dashboard.report.section import Reported, Section
from dashboard.words.found import misses, searched_part
from dashboard.work import Job
from profiler.engines.base import Progress
from tuner.export.from_results import Pick, picked
from tuner.results import Results
from tuner.search.load_curve import LoadCurve

_SHOWN = (50.0, 90.0, 99.0, 99.9, 100.0)
LOAD_HEIGHT, TIME_HEIGHT = 1150, 1000


def lead(results: Results, chosen: Pick) -> str:
    """The chosen point's p99s against their limits, and whether it meets the SLOs."""
    figures, one = chosen.figures, next(iter(results.slo.values()), {})
    name = name_of(results, chosen)
    name = name[:1].upper() + name[1:]
    if figures is None:
        return f"{name}: no figures, {chosen.candidate.failure or 'it was not predicted'}."
    limits = one if len(results.slo) == 1 else {}
    parts = []
    for metric, word in METRICS.items():
        limit = limits.get(f"{metric}_p99_s")
        text = f"{word} p99 {latency(figures.get(f'{metric}_p99_s'))}"
        parts.append(text if limit is None else f"{text} (limit {latency(limit)})")
    met = "meets its SLOs" if chosen.meets_slo else f"misses {misses(chosen.misses)}"
    met = met if any(results.slo.values()) else "there are no SLOs"
    return f"{name}, {chosen.evidence}{searched_part(results, figures)}: {', '.join(parts)}; {met}."


def capacity_words(found: Mapping[str, Any], limited: bool) -> str:
    """Headroom of the first point, and of the engine default beside it; predicted."""
    if not limited:
        return "Without SLOs there is no highest rate to look for."
    texts = [headroom(curve, found["rate_rps"]) for curve in curves_in(found)[:2]]
    texts += [f"{name} has no load curve: {why}" for name, why in found["failures"].items()]
    return f"Predicted: {'; '.join(texts)}." if texts else ""


def curves_in(found: Mapping[str, Any]) -> list[LoadCurve]:
    """The curves of `derive.load.capacity`."""
    return [LoadCurve.from_dict(plain) for plain in found["curves"].values()]


def limits_in(results: Results, metric: str, class_name: str) -> dict[str, float]:
    """SLO in words -> seconds, of one class or, for "all", of every class."""
    found: dict[str, float] = {}
    for name, limits in results.slo.items():
        limit = limits.get(f"{metric}_p99_s")
        if limit is None or class_name not in (derived.ALL, name):
            continue
        if limit not in found.values():
            found["SLO" if len(results.slo) == 1 else f"SLO {name}"] = limit
    return found


def of_class(points: Mapping[str, Any], class_name: str) -> dict[str, Any]:
    """Name -> distribution of one class; what could not be simulated is left out."""
    return {name: one[class_name] for name, one in points.items() if class_name in one}


def percentile_table(curves: Mapping[str, Any], percents: list[float]) -> pd.DataFrame:
    """One row for each point and metric: percentiles in milliseconds, number of samples."""
    places = [min(range(len(percents)), key=lambda i: abs(percents[i] - p)) for p in _SHOWN]
    names = [f"p{p:g}, ms" if p < 100 else "longest, ms" for p in _SHOWN]
    rows = []
    for metric, word in METRICS.items():
        for name, one in curves.items():
            values = [one[f"{metric}_s"][place] for place in places]
            ms = [None if v is None else float(f"{1e3 * v:.4g}") for v in values]
            count = one[f"num_{metric}"]
            rows.append({"figure": word, "point": name, **dict(zip(names, ms, strict=True))})
            rows[-1]["requests" if metric == "ttft" else "gaps"] = count
    frame = pd.DataFrame(rows)
    if "gaps" in frame:
        frame["samples"] = frame["requests"].fillna(frame["gaps"]).astype("int64")
        frame = frame.drop(columns=["requests", "gaps"])
    return frame


def section(reported: Reported, progress: Progress) -> Section | None:
    """Distributions, the engine over time, and the load curves of the point and the default."""
    results, place = reported.results, reported.folder.path
    chosen, source = picked(results, reported.point), style.source_of(results)
    points = points_of(results, chosen)
    found = Job("distributions", derived.distributions, place, (points,)).run(progress)
    curves = of_class(found["points"], derived.ALL)
    figures = []
    for metric in METRICS:
        limits = limits_in(results, metric, derived.ALL)
        for draw in (cumulative_figure, tail_figure):
            figure = draw(metric, found["percents"], curves, limits)
            figures.append(style.finish(figure, source))
    if results.fleet is None:
        figures.append(tall(_over_time(reported, points, progress), source, TIME_HEIGHT))
    load = Job("load curves", capacity, place, (points,)).run(progress)
    picture = capacity_figure(curves_in(load), load["rate_rps"])
    figures.append(tall(picture, source, LOAD_HEIGHT))
    text = f"{lead(results, chosen)}\n\n{capacity_words(load, any(results.slo.values()))}"
    table = percentile_table(curves, found["percents"])
    return Section("Latency", text, tuple(figures), (("predicted, all traffic", table),))


def _over_time(reported: Reported, points: Points, progress: Progress) -> Any:
    job = Job("the engine over time", derived.over_time, reported.folder.path, (points,))
    found = job.run(progress)
    return over_time_figure({n: one for n, one in found.items() if "failure" not in one})
