"""What a study found, in words and small tables. Pure: nothing here knows Streamlit or files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard.figures.digits import digits
from profiler.knobs import KNOBS
from tuner.candidate import Candidate, Evidence, Verdict
from tuner.metrics import UNSERVED_SHARE
from tuner.results import Results

_LIMITS = {"ttft_p99_s": "TTFT p99", "itl_p99_s": "ITL p99", "tpot_p99_s": "TPOT p99"}
_DEFAULT_CLASS = "default"


def figures_of(results: Results) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metrics of the engine default and of the recommended configuration, of one kind: confirmed
    where both were, else predicted; empty where there are none."""
    default, best = results.default, results.recommended
    if source_of_figures(results) is Evidence.PREDICTED:
        return default.predicted or {}, best.predicted or {}
    return default.measured or {}, best.measured or {}


def source_of_figures(results: Results) -> Evidence:
    """What `figures_of` are."""
    confirmed = results.default.measured is not None and results.recommended.measured is not None
    return results.evidence if confirmed else Evidence.PREDICTED


def sentence(results: Results) -> str:
    """What to deploy, what it gains over the engine default, and whether it meets the SLOs."""
    if results.verdict is Verdict.DEFAULT_IS_BEST or results.recommended == results.default:
        return f"{_keep(results)}: {_levels(results)}."
    what = f"{results.recommended.label} ({settings_in_words(results)})"
    met = figures_of(results)[0].get("meets_slo")
    default = "the engine default" + (", which misses them" if met is False else "")
    default = default if results.meets_slo else "the engine default"
    known = source_of_figures(results)
    how = "" if known is results.evidence else f" ({known} of both)"
    return f"{_lead(results, what)}. Against {default}{how}: {_gains(results)}."


def _keep(results: Results) -> str:
    if results.verdict is Verdict.PREDICTED:
        met = "meet the SLOs" if results.meets_slo else f"miss the SLOs ({misses(results.misses)})"
        return f"Predicted only, not measured: keep the engine default, which would {met}"
    if not results.meets_slo:
        return (
            f"Nothing met the SLOs, {results.evidence.note}; the engine default comes closest and "
            f"misses {misses(results.misses)}"
        )
    return (
        f"Keep the engine default: it meets the SLOs, {results.evidence.note}, and nothing else "
        "did better"
    )


def _lead(results: Results, what: str) -> str:
    if results.verdict is Verdict.PREDICTED:
        if results.meets_slo:
            return f"Predicted only, not measured: deploy {what}; it would meet the SLOs"
        return (
            "Predicted only, not measured: nothing would meet the SLOs; the closest, "
            f"{what}, would miss {misses(results.misses)}"
        )
    if results.verdict is Verdict.NOTHING_MET:
        return (
            f"Nothing met the SLOs, {results.evidence.note}; the closest, {what}, misses "
            f"{misses(results.misses)}"
        )
    return f"Deploy {what}: it meets the SLOs, {results.evidence.note}"


def searched_part(results: Results, figures: Mapping[str, Any]) -> str:
    """Which part of the traffic the figures of a fleet's trial are of, where the search simulated
    a part and the trial was not scored on all; else empty."""
    fleet = results.fleet
    if fleet is None or "num_requests" in figures:
        return ""
    part, whole = fleet["searched_requests"], fleet["requests"]
    return f" on the busiest {part:,} of {whole:,} requests" if part < whole else ""


def misses(violations: Mapping[str, float]) -> str:
    """Which SLOs are broken, and by how much: TTFT p99 by 12 %. Results keep no size of what never
    came, nor violations of a trial that was not confirmed."""
    return ", ".join(_miss(*one) for one in violations.items()) or "an SLO"


def _miss(name: str, violation: float) -> str:
    group, _, limit = name.rpartition(".")
    if limit == "unserved":
        of = "" if group in ("", _DEFAULT_CLASS) else f" of {group}"
        return f"{digits(UNSERVED_SHARE * (1 + violation), 100)} % of the requests{of} unserved"
    size = f" by {100 * violation:,.0f} %" if math.isfinite(violation) else " (it never came)"
    return f"{limit_name(name)}{size}"


def limit_name(key: str) -> str:
    """A limit for people: of `default.ttft_p99_s`, TTFT p99; another class is named."""
    group, _, name = key.rpartition(".")
    text = _LIMITS.get(name, name)
    return text if group in ("", _DEFAULT_CLASS) else f"{text} of {group}"


def settings_in_words(results: Results) -> str:
    """How the recommended configuration differs from the engine default, short."""
    plan = results.recommended.plan
    if plan is not None:
        return plan.words()
    before = results.default.resolved
    given = sorted(results.recommended.settings.items())
    differ = [f"{name} {_shown(value)}" for name, value in given if before.get(name) != value]
    return ", ".join(differ) or "no other setting"


def _gains(results: Results) -> str:
    """goodput 5.9 instead of 4.8 requests/s (+23 %), TTFT p99 ..."""
    before, after = figures_of(results)
    parts = [_goodput(results, before, after)]
    for name in ("ttft_p99_s", "itl_p99_s"):
        old, new = before.get(name), after.get(name)
        pair = f"{digits(new, 1e3)} instead of {digits(old, 1e3)} ms"
        parts.append(f"{_LIMITS[name]} {pair}{_change(old, new)}")
    return ", ".join(parts)


def _goodput(results: Results, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Per GPU where the two run on different numbers of them."""
    gpus = results.gpus_of(results.default), results.gpus_of(results.recommended)
    unit, counts = "requests/s", (1, 1)
    if None not in gpus and gpus[0] != gpus[1]:
        unit, counts = "requests/s per GPU", (gpus[0] or 1, gpus[1] or 1)
    pair = zip((before, after), counts, strict=True)
    old, new = (_per(metrics.get("goodput_rps"), count) for metrics, count in pair)
    return f"goodput {digits(new)} instead of {digits(old)} {unit}{_change(old, new)}"


def _per(value: float | None, count: int) -> float | None:
    return None if value is None else value / count


def _change(old: float | None, new: float | None) -> str:
    if not old or new is None:
        return ""
    share = 100 * (new - old) / old
    return f" ({share:+,.0f} %)" if abs(share) >= 0.5 else " (the same)"


def _levels(results: Results) -> str:
    """The recommended configuration's own figures."""
    figures = figures_of(results)[1]
    times = (f"{_LIMITS[n]} {digits(figures.get(n), 1e3)} ms" for n in ("ttft_p99_s", "itl_p99_s"))
    return f"goodput {digits(figures.get('goodput_rps'))} requests/s, {', '.join(times)}"


def slo_in_words(slo: Mapping[str, Mapping[str, float | None]]) -> str:
    """Limits of every class: TTFT p99 1,500 ms, ITL p99 80 ms."""
    texts = []
    for group, limits in slo.items():
        given = [f"{_LIMITS[k]} {digits(v, 1e3)} ms" for k, v in limits.items() if v is not None]
        name = "" if group == _DEFAULT_CLASS else f"{group}: "
        texts += [f"{name}{', '.join(given)}"] if given else []
    return "; ".join(texts)


def settings_against_default(results: Results) -> pd.DataFrame:
    """Rows of the settings in which the two differ, as the engine resolved them."""
    frame = differing(results.default, results.recommended, ("engine default", "recommended"))
    frame["unit"] = [_knob(name, "unit") for name in frame["setting"]]
    frame["meaning"] = [_knob(name, "meaning") for name in frame["setting"]]
    return frame


def differing(one: Candidate, other: Candidate, names: tuple[str, str]) -> pd.DataFrame:
    """Rows of the settings in which two configurations differ; of fleets, of each pool."""
    first, second = flat_settings(one), flat_settings(other)
    rows = [
        {
            "setting": name,
            names[0]: _shown(first.get(name)),
            names[1]: _shown(second.get(name)),
        }
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]
    return pd.DataFrame(rows, columns=["setting", *names])


def flat_settings(candidate: Candidate) -> dict[str, Any]:
    """Setting -> value; of a fleet, with routers and pools, ROLE.NAME for those of a pool."""
    plan = candidate.plan
    if plan is None:
        return dict(sorted(candidate.resolved.items()))
    flat: dict[str, Any] = {
        "mode": plan.mode,
        "GPUs": plan.num_gpus,
        "router": plan.router,
        "decode router": plan.decode_router,
    }
    for pool in plan.pools:
        own = {"replicas": pool.replicas, "GPUs per replica": pool.tp, "system": pool.system}
        resolved = candidate.resolved.get(pool.role) or pool.settings
        flat |= {f"{pool.role}.{k}": v for k, v in (own | dict(sorted(resolved.items()))).items()}
    return flat


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _knob(setting: str, what: str) -> str:
    known = KNOBS.get(setting.rpartition(".")[2])
    return "" if known is None else str(getattr(known, what))


def provenance(results: Results) -> pd.DataFrame:
    """Where the results come from, one row per fact."""
    known = results.provenance
    engine = known.get("engine") or {}
    facts = {
        "evidence": results.evidence.note,
        "engine": " ".join(str(engine[k]) for k in ("engine", "version") if engine.get(k)),
        "device": engine.get("device"),
        "model": model_name(str(engine.get("model") or results.engine.get("model") or "")),
        "traffic": known.get("trace_source"),
        "trace digest": str(known.get("trace_digest", ""))[:16],
        "configurations searched": f"{results.trials:,}",
        "of which refused": f"{results.infeasible_trials:,}",
        "seed": known.get("seed"),
        "Stallfree": f"{known.get('stallfree_version')}, commit {known.get('commit')}",
        "date": known.get("date"),
        "engine not checked": engine.get("unchecked"),
    }
    rows = [{"what": k, "is": str(v)} for k, v in facts.items() if v not in (None, "")]
    return pd.DataFrame(rows, columns=["what", "is"])


def model_name(model: str) -> str:
    """A model's name; of a folder, its last part."""
    return model.rstrip("/").rpartition("/")[2] if model.startswith("/") else model


_READABLE = {
    "ttft_p50_s": "TTFT p50, ms",
    "ttft_p99_s": "TTFT p99, ms",
    "itl_p50_s": "ITL p50, ms",
    "itl_p99_s": "ITL p99, ms",
    "goodput_rps": "goodput, requests/s",
    "goodput per GPU": "goodput per GPU, requests/s",
}


def readable(confirmed: pd.DataFrame) -> pd.DataFrame:
    """`tables.confirmed` for people: milliseconds, three digits, units in the headings."""
    shown = {}
    for name in confirmed.columns:
        base, _, level = str(name).partition(", ")
        scale = 1e3 if base.endswith("_s") else 1.0
        column = confirmed[name]
        heading = _READABLE.get(base, base) + (f" ({level})" if level else "")
        if level:
            shown[heading] = [_ends(text) for text in column]
        elif base in _READABLE:
            shown[heading] = [digits(v, scale) for v in column]
        else:
            shown[heading] = list(column)
    return pd.DataFrame(shown)


def _ends(text: str) -> str:
    """An interval in seconds, such as 0.1-0.2, in milliseconds; "" stays."""
    try:
        low, high = (float(end) for end in text.split("-", 1))
    except ValueError:
        return text
    return f"{digits(low, 1e3)} to {digits(high, 1e3)}"
