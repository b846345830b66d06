"""What is known of an exported configuration, for programs and on one page for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.candidate import Evidence
from tuner.export.from_results import Pick
from tuner.intervals import ALL
from tuner.metrics import without_nan
from tuner.results import Results
from tuner.slo import missed_in_words

_FIGURES = (
    ("TTFT p50, ms", "ttft_p50_s", 1e3),
    ("TTFT p99, ms", "ttft_p99_s", 1e3),
    ("ITL p50, ms", "itl_p50_s", 1e3),
    ("ITL p99, ms", "itl_p99_s", 1e3),
    ("TPOT p99, ms", "tpot_p99_s", 1e3),
    ("goodput, requests/s", "goodput_rps", 1.0),
)


def evidence(results: Results, pick: Pick, held_out: Mapping[str, Any] | None) -> dict[str, Any]:
    """Plain data for `evidence.json`; `held_out` is the latency model's report, if it is known."""
    chosen, default = pick.candidate, results.default
    confirmed: dict[str, Any] = {}
    beside: dict[str, Any] = {}
    if pick.evidence is not Evidence.PREDICTED:
        confirmed = {pick.evidence.value: chosen.measured, "corrected": chosen.corrected}
        confirmed["replays"] = chosen.replays
    if results.evidence is not Evidence.PREDICTED:
        beside = {results.evidence.value: default.measured}
    return {
        "study": results.study,
        "configuration": chosen.label,
        "settings": chosen.settings,
        "resolved": chosen.resolved,
        "meets_slo": pick.meets_slo,
        "traffic_digest": results.provenance.get("trace_digest"),
        "traffic_source": results.provenance.get("trace_source"),
        "engine": results.provenance.get("engine"),
        "slo": results.slo,
        "misses": without_nan(pick.misses),
        "predicted": chosen.predicted,
        "evidence": pick.evidence.note,
        **confirmed,
        "default": {"settings": default.settings, "predicted": default.predicted, **beside},
        "latency_model_error": held_out,
        "provenance": results.provenance,
    }


def evidence_page(
    results: Results, pick: Pick, held_out: Mapping[str, Any] | None, lost: list[str]
) -> str:
    """Text of `EVIDENCE.md`; `lost` are settings that the target cannot hold."""
    from_ = results.provenance
    engine = from_.get("engine") or {}
    chosen = pick.candidate
    parts = [
        f"# Evidence: {chosen.label} of study {results.study}",
        _verdict(pick),
        "## Where it comes from",
        f"- Traffic: {from_.get('trace_source')}, digest {str(from_.get('trace_digest'))[:12]}.",
        f"- Engine: {engine.get('engine')} {engine.get('version')} on {engine.get('device')}, "
        f"model {results.engine['model']}.",
        f"- Latency model: {_error(held_out)}",
        f"- Made by Stallfree {from_.get('stallfree_version')} (commit {from_.get('commit')}) on "
        f"{from_.get('host')} at {from_.get('date')}, seed {from_.get('seed')}.",
        f"- Search: {results.trials} configurations, {results.infeasible_trials} of them refused.",
        *_fleet(results, pick),
        "## Figures",
        _table(pick, results),
        "## Limits",
        *_limits(results, pick),
    ]
    if lost:
        parts += ["## Not in the files", *(f"- {line}" for line in lost)]
    return "\n".join(_spaced(parts)) + "\n"


def _spaced(parts: list[str]) -> list[str]:
    """An empty line before and after each heading."""
    lines: list[str] = []
    for part in parts:
        lines += ["", part, ""] if part.startswith("#") and lines else [part]
        if part.startswith("# "):
            lines.append("")
    return lines


def _verdict(pick: Pick) -> str:
    missed = missed_in_words(pick.misses)
    if pick.evidence is Evidence.PREDICTED:
        would = "would meet" if pick.meets_slo else "would NOT meet"
        return f"It {would} its SLOs; {Evidence.PREDICTED.note}. {missed}".strip()
    met = "It meets its SLOs" if pick.meets_slo else f"It does NOT meet its SLOs: {missed}"
    return f"{met}, {pick.evidence.note}."


def _error(held_out: Mapping[str, Any] | None) -> str:
    if held_out is None:
        return "its error is not known here."
    whole = [row for row in held_out["rows"] if row["size"] == "all"]
    medians = ", ".join(f"{row['region']} {100 * row['median']:.1f} %" for row in whole)
    return f"median error against {held_out['reference']}: {medians}."


def _fleet(results: Results, pick: Pick) -> list[str]:
    """The fleet, the one it is compared with, and the link that was assumed."""
    plan, default = pick.candidate.plan, results.default.plan
    if plan is None:
        return []
    lines = [f"- Fleet on {plan.num_gpus} GPUs: {plan.words()}."]
    if default is not None:
        lines.append(f"- Engine default on {default.num_gpus} GPUs: {default.words()}.")
    link = (results.fleet or {}).get("link")
    if plan.decode_router is not None and link:
        lines.append(
            f"- Link assumed: {link['name'] or 'by its figures'}, {1e-9 * link['bytes_per_s']:.3g} "
            f"GB/s, {1e3 * link['latency_s']:.3g} ms."
        )
    return lines


def _table(pick: Pick, results: Results) -> str:
    columns = [("predicted", pick.candidate.predicted)]
    if pick.evidence is not Evidence.PREDICTED:
        columns.append((pick.evidence.value, pick.candidate.measured))
    columns += [("engine default, predicted", results.default.predicted)]
    head = ["figure", *(name for name, _ in columns)]
    rows = [
        [label, *(_cell(figures, name, scale) for _, figures in columns)]
        for label, name, scale in _FIGURES
    ]
    chance = (pick.candidate.predicted or {}).get("chance", {}).get(ALL)
    rows.append(["chance to meet every SLO", "-" if chance is None else f"{chance:.2f}"])
    lines = [head, ["---"] * len(head), *(r + [""] * (len(head) - len(r)) for r in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(figures: Mapping[str, Any] | None, name: str, scale: float) -> str:
    value = (figures or {}).get(name)
    if value is None:
        return "-"
    interval = (figures or {}).get("intervals", {}).get(name)
    text = f"{scale * value:.3g}"
    if not interval or None in interval:
        return text
    return f"{text} ({scale * interval[0]:.3g} to {scale * interval[1]:.3g})"


def _limits(results: Results, pick: Pick) -> list[str]:
    limits = [
        f"- SLO of class {name}: "
        + ", ".join(f"{what.removesuffix('_s')} {1e3 * x:g} ms" for what, x in limit.items())
        for name, limit in results.slo.items()
    ]
    unlike = (results.provenance.get("engine") or {}).get("unchecked")
    limits += [f"- {unlike}"] if unlike else []
    limits += [f"- Predicted on {cut}." for cut in _cut(results, pick)]
    return limits + [f"- Not sampled: {line}" for line in pick.candidate.not_sampled]


def _cut(results: Results, pick: Pick) -> list[str]:
    """The traffic of a fleet that was not scored on all of it, unlike the default."""
    fleet, scored = results.fleet, (results.default, results.recommended, *results.candidates)
    if fleet is None or pick.candidate in scored:
        return []
    return [
        f"the busiest {fleet['searched_requests']:,} of {fleet['requests']:,} requests in a row, "
        "the engine default on all of them"
    ]
