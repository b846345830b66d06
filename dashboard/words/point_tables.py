"""Tables and sentences about one configuration of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard import tables
from dashboard.figures.differences import change
from dashboard.figures.digits import digits, signed
from dashboard.figures.measures import GOODPUT, ITL, PER_GPU, TTFT, Measure
from dashboard.words import found
from profiler.knobs import KNOBS
from tuner.candidate import Candidate, Evidence
from tuner.export.from_results import Pick
from tuner.intervals import ALL
from tuner.results import Results

_SHOWN = (TTFT, ITL, GOODPUT)


def lead(results: Results) -> tuple[str, str]:
    """What to deploy and why, one sentence or two; and more about it: its trial, SLOs, chance."""
    best = results.recommended
    if best.measured is None and best.predicted is None:
        return f"No configuration could be predicted: {best.failure}.", ""
    more, trial = [], tables.number_of(results, best)
    if trial is not None:
        more.append(f"It is trial {trial} of the search.")
    more.append(f"SLOs: {found.slo_in_words(results.slo) or 'none'}.")
    share = ((best.predicted or {}).get("chance") or {}).get(ALL)
    if share is not None:
        more.append(f"Predicted chance to meet them on traffic like this: {100 * share:.0f} %.")
    return found.sentence(results), " ".join(more)


def title(results: Results, pick: Pick, number: int | None) -> str:
    """What the point is, trial `number` of the search: Trial 49 (on the front, recommended)."""
    point = next((p for p in results.front if p["number"] == number), None)
    words = []
    if point is not None:
        words.append(_KINDS[point["on_front"], point["feasible"]])
    if pick.candidate.settings == results.recommended.settings:
        words.append("recommended")
    if pick.candidate.settings == results.default.settings:
        words.append("engine default")
    name = pick.candidate.label if number is None else f"Trial {number}"
    return f"{name} ({', '.join(words)})" if words else name


_KINDS = {
    (True, True): "on the front",
    (True, False): "nearest to the SLOs",
    (False, True): "meets the SLOs",
    (False, False): "misses an SLO",
}


def figures_table(point: Mapping[str, Any], default: Mapping[str, Any] | None) -> pd.DataFrame:
    """Predicted figures of a trial with their intervals, beside the engine default's.

    Both are points of `Results.front`.
    """
    rows = []
    for measure in _SHOWN:
        value = point[measure.column]
        other = None if default is None else default[measure.column]
        rows.append(
            {
                "figure": measure.label,
                "this point": digits(value, measure.scale),
                "90 % interval": _interval(point["intervals"].get(measure.column), measure),
                "engine default": digits(other, measure.scale),
                "change": _change(value, other),
            }
        )
    return pd.DataFrame(rows)


def confirmed_table(candidate: Candidate, evidence: Evidence) -> pd.DataFrame:
    """Predicted and seen figures of the requests that were replayed; empty without a replay.

    An error is predicted against seen: +10 % was predicted a tenth too high.
    """
    rows = []
    seen = candidate.measured
    for measure in _SHOWN:
        if seen is None:
            break
        predicted = (candidate.predicted or {}).get(measure.column)
        row = {
            "figure": measure.label,
            "predicted": digits(predicted, measure.scale),
            evidence.value: digits(seen[measure.column], measure.scale),
            "error": _change(predicted, seen[measure.column]),
        }
        if evidence is Evidence.MEASURED and candidate.corrected is not None:
            corrected = candidate.corrected[measure.column]
            row["at profile speed"] = digits(corrected, measure.scale)
            row["error at profile speed"] = _change(predicted, corrected)
        rows.append(row)
    return pd.DataFrame(rows)


def settings_table(results: Results, pick: Pick) -> pd.DataFrame:
    """The settings in which a configuration differs from the engine default, and what they mean."""
    default = tables.flat_resolved(results.default)
    default |= tables.flat_settings(results.default.settings)
    given = tables.flat_settings(pick.candidate.settings)
    rows = []
    for name in given:
        knob = KNOBS.get(name.rpartition(".")[2])
        if str(default.get(name)) != str(given[name]):
            rows.append(
                {
                    "setting": name,
                    "engine default": str(default.get(name, "-")),
                    "this point": str(given[name]),
                    "unit": knob.unit if knob is not None else "",
                    "meaning": knob.meaning
                    if knob is not None
                    else _MEANINGS.get(name.rpartition(".")[2], ""),
                }
            )
    return pd.DataFrame(rows)


_MEANINGS = {
    "mode": "which pools there are",
    "router": "rule for the first replica of a request",
    "decode_router": "rule for its decode replica",
    "replicas": "engines in the pool",
    "tp": "GPUs per replica",
}


def differences_table(differences: dict[str, Any]) -> pd.DataFrame:
    """`derive.differences` for people: change of each figure, shown units."""
    rows = []
    for row in differences["rows"]:
        shown = {"setting": row["name"], "default": str(row["default"])}
        shown["this point"] = str(row["chosen"])
        for measure in (ITL, TTFT, GOODPUT):
            for name, ends in (("alone", ("default", "alone")), ("added", ("without", "chosen"))):
                value = change(row, differences, measure, ends)
                shown[f"{measure.label}, {name}"] = signed(value)
        shown["note"] = row["why_not"] or ""
        rows.append(shown)
    return pd.DataFrame(rows)


def neighbours_table(trials: pd.DataFrame, numbers: list[int], here: int) -> pd.DataFrame:
    """Trials beside trial `here`: change of each figure, and the settings that differ."""
    columns = tables.setting_columns(trials)
    own = trials[trials["number"] == here].iloc[0]
    rows = []
    for other in numbers:
        row = trials[trials["number"] == other].iloc[0]
        differs = [
            f"{name.removeprefix(tables.SETTING)} {_text(own[name])} to {_text(row[name])}"
            for name in columns
            if _text(own[name]) != _text(row[name])
        ]
        figures = {m.title: _change(row[m.column], own[m.column]) for m in _SHOWN}
        rows.append({"trial": other, **figures, "settings": "; ".join(differs) or "the same"})
    return pd.DataFrame(rows)


def _text(value: Any) -> str:
    return "-" if pd.isna(value) else str(value)


def front_table(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials as a table for people: shown units, three digits."""
    shown = pd.DataFrame({"trial": trials["number"], "kind": trials["kind"]})
    for measure in (*_SHOWN, PER_GPU):
        if trials[measure.column].notna().any():
            shown[measure.label] = [float(f"{v:.4g}") for v in measure.of(trials)]
    if trials["chance"].notna().any():
        shown["chance to meet, %"] = (100 * trials["chance"]).round(0)
    if (trials["fleet"] != "").any():
        return shown.assign(fleet=trials["settings"])
    for name in tables.setting_columns(trials):
        shown[name.removeprefix(tables.SETTING)] = [_text(v) for v in trials[name]]
    return shown


def _interval(ends: list[float] | None, measure: Measure) -> str:
    return "-" if ends is None else " to ".join(digits(end, measure.scale) for end in ends)


def _change(value: float | None, other: float | None) -> str:
    """By how much `value` is above `other`, in %."""
    if value is None or not other or value != value or other != other:
        return "-"
    percent = round(100 * (value - other) / other)
    return f"{percent:+,} %" if percent else "0 %"
