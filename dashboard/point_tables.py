"""Tables and sentences about one configuration of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard import tables
from dashboard.figures.differences import change
from dashboard.figures.measures import GOODPUT, ITL, PER_GPU, TTFT, Measure, number
from profiler.knobs import KNOBS
from tuner.candidate import Candidate, Evidence
from tuner.export.from_results import Pick
from tuner.intervals import ALL
from tuner.results import Results, Verdict

_SHOWN = (TTFT, ITL, GOODPUT)


def lead(results: Results) -> str:
    """What to deploy and why, one or two sentences with numbers and units."""
    best = results.recommended
    figures = best.measured or best.predicted
    if figures is None:
        return f"No configuration could be predicted: {best.failure}."
    how = results.evidence.value
    what = f"{TTFT.title} {TTFT.words(figures['ttft_p99_s'])} and " + (
        f"{ITL.title} {ITL.words(figures['itl_p99_s'])}"
    )
    if not results.meets_slo:
        missed = ", ".join(f"{name} by {100 * v:.0f} %" for name, v in results.misses.items())
        text = f"Nothing meets the SLOs. Closest is {_called(results)}: {what}, {how}"
        return f"{text}; it misses {missed}." if missed else f"{text}."
    begin = "Keep the engine default" if _is_default(results) else f"Deploy {_called(results)}"
    return f"{begin}: {what}, {how}, within the SLOs ({_limits(results)}). {_gain(results)}"


def _is_default(results: Results) -> bool:
    default = results.recommended.settings == results.default.settings
    return results.verdict is Verdict.DEFAULT_IS_BEST or default


def _called(results: Results) -> str:
    """The recommended one by number and by what differs from the default."""
    best = results.recommended
    trial = tables.number_of(results, best)
    name = best.label if trial is None else f"trial {trial}"
    if best.plan is not None:
        return f"{name} ({best.plan.words()})"
    known = results.default.resolved
    given = [f"{n} {v}" for n, v in best.settings.items() if known.get(n) != v]
    return f"{name} ({', '.join(given)})" if given else name


def _limits(results: Results) -> str:
    texts = []
    for name, limits in results.slo.items():
        of_class = f" of {name}" if len(results.slo) > 1 else ""
        for key, limit in limits.items():
            title = key.removesuffix("_s").replace("_", " ").upper().replace("P99", "p99")
            texts.append(f"{title}{of_class} {number(1e3 * limit)} ms")
    return ", ".join(texts) or "there are none"


def _gain(results: Results) -> str:
    """Goodput beside the default's, and the chance."""
    best, default = results.recommended, results.default
    seen = best.measured is not None and default.measured is not None
    here, there = (c.measured if seen else c.predicted for c in (best, default))
    text = ""
    if here is not None:
        text = f"Goodput is {number(here['goodput_rps'])} requests/s"
        if there is not None and not _is_default(results):
            text += f", the engine default's {number(there['goodput_rps'])}"
        text += "."
    share = ((best.predicted or {}).get("chance") or {}).get(ALL)
    if share is not None:
        text += f" Predicted chance to meet the SLOs on traffic like this: {100 * share:.0f} %."
    return text


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
                "this point": _value(value, measure),
                "90 % interval": _interval(point["intervals"].get(measure.column), measure),
                "engine default": _value(other, measure),
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
            "predicted": _value(predicted, measure),
            evidence.value: _value(seen[measure.column], measure),
            "error": _change(predicted, seen[measure.column]),
        }
        if evidence is Evidence.MEASURED and candidate.corrected is not None:
            corrected = candidate.corrected[measure.column]
            row["at profile speed"] = _value(corrected, measure)
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


def differences_table(found: dict[str, Any]) -> pd.DataFrame:
    """`derive.differences` for people: change of each figure, shown units."""
    rows = []
    for row in found["rows"]:
        shown = {"setting": row["name"], "default": str(row["default"])}
        shown["this point"] = str(row["chosen"])
        for measure in (ITL, TTFT, GOODPUT):
            for name, ends in (("alone", ("default", "alone")), ("added", ("without", "chosen"))):
                value = change(row, found, measure, ends)
                shown[f"{measure.label}, {name}"] = "-" if value is None else f"{value:+,.3g}"
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


def _value(value: float | None, measure: Measure) -> str:
    return "-" if value is None or value != value else number(value * measure.scale)


def _interval(ends: list[float] | None, measure: Measure) -> str:
    return "-" if ends is None else " to ".join(number(end * measure.scale) for end in ends)


def _change(value: float | None, other: float | None) -> str:
    """By how much `value` is above `other`, in %."""
    if value is None or not other or value != value or other != other:
        return "-"
    percent = round(100 * (value - other) / other)
    return f"{percent:+,} %" if percent else "0 %"
