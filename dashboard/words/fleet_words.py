"""What a run of fleets says, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from dashboard.derive.fleet_frames import MODES
from dashboard.figures.digits import digits
from dashboard.words.found import misses
from tuner.candidate import Candidate
from tuner.cli import verdict_report
from tuner.fleet_plan import AGGREGATED, MIXED, FleetPlan
from tuner.intervals import odds
from tuner.results import Results
from tuner.verdict.figures import short

NO_POOLS = (
    "This run is of one engine: it has no pools. To ask how many prefill and how many decode "
    "replicas to run, or whether to split at all, add `fleet: {gpus: 16}` (your number of GPUs) to "
    "the study and run `stallfree tune`, then `stallfree verdict`. Several equal replicas of this "
    "engine, each with its share of the traffic, are the aggregated fleet such a study compares "
    "with."
)
"""of a run of one engine"""


def answer(results: Results) -> str:
    """Which fleet to run and how good it is predicted to be, one sentence or two."""
    best = results.recommended
    plan = _plan(best)
    fleet = fleet_name(plan)
    if not results.meets_slo:
        missed = misses(results.misses)
        return f"No fleet found meets the SLOs; the closest is {fleet}: it misses {missed}."
    return f"Run {fleet}: {figures_text(best)}."


def fleet_name(plan: FleetPlan) -> str:
    """A fleet in a few words: 16 aggregated replicas on 16 GPUs, split 11P:5D on 16 GPUs."""
    gpus = f"{plan.num_gpus} GPU{'s' if plan.num_gpus > 1 else ''}"
    if plan.mode == AGGREGATED:
        return f"{plan.ratio} aggregated replica{'s' if plan.num_replicas > 1 else ''} on {gpus}"
    return f"{MODES[plan.mode]} {plan.ratio} on {gpus}"


def about(results: Results) -> list[str]:
    """The recommended fleet in full, and what was confirmed of it."""
    best = results.recommended
    plan = _plan(best)
    lines = [f"In full: {plan.words()}."]
    if best.measured is not None:
        met = "meets" if best.measured["meets_slo"] else "does not meet"
        word = results.evidence.value.capitalize()
        lines.append(f"{word}: {_figures(best.measured, plan)}; it {met} the SLOs.")
    return lines


def figures_text(candidate: Candidate) -> str:
    """Predicted goodput per GPU, p99s and chance of a candidate."""
    figures = candidate.predicted
    if figures is None:
        return f"not predicted ({candidate.failure})"
    return f"predicted {_figures(figures, _plan(candidate))}"


def _figures(figures: Mapping[str, Any], plan: FleetPlan) -> str:
    parts = [f"{digits(figures['goodput_rps'], 1 / plan.num_gpus)} good requests/s and GPU"]
    for name, key in (("TTFT", "ttft_p99_s"), ("ITL", "itl_p99_s")):
        if figures[key] is not None:
            parts.append(f"{name} p99 {digits(figures[key], 1e3)} ms")
    if figures.get("chance"):
        parts.append(f"meets the SLOs in {odds(figures)} windows of traffic like it")
    return ", ".join(parts)


def against_others(results: Results) -> list[str]:
    """The recommended fleet against the best of each other mode, and against the engine default."""
    best = results.recommended
    own = _per_gpu(best)
    if own is None:
        return []
    lines = []
    for mode in MODES:
        other = best_candidate(results, mode)
        if other is not None and mode != _plan(best).mode:
            lines.append(_compared(own, other, f"the best {MODES[mode]} fleet found"))
    if best.label != results.default.label:
        lines.append(_compared(own, results.default, "the engine default"))
    return [line for line in lines if line]


def best_candidate(results: Results, mode: str) -> Candidate | None:
    """Of the candidates of a mode, the engine default aside: one that is predicted to meet the SLOs
    before others, then the most goodput per GPU."""
    found = [
        (bool(c.predicted["meets_slo"]), _per_gpu(c) or 0.0, c)
        for c in results.candidates
        if c.predicted and _plan(c).mode == mode and c.label != results.default.label
    ]
    return max(found, key=lambda one: one[:2])[2] if found else None


def _compared(own: float, other: Candidate, what: str) -> str:
    theirs, plan = _per_gpu(other), _plan(other)
    if theirs is None:
        return f"{what.capitalize()} could not be predicted: {other.failure}."
    met = "" if other.predicted and other.predicted["meets_slo"] else ", which misses an SLO"
    fleet = f"{what} ({fleet_name(plan)}{met})"
    if theirs == 0:
        return f"{fleet[0].upper()}{fleet[1:]} serves nothing within the SLOs."
    gain = own / theirs - 1
    if gain >= 1:
        return f"That is {own / theirs:.2g} times the goodput per GPU of {fleet}."
    more = "more" if gain >= 0 else "less"
    return f"That is {100 * abs(gain):.1f} % {more} goodput per GPU than {fleet}."


def _per_gpu(candidate: Candidate) -> float | None:
    if candidate.predicted is None:
        return None
    return float(candidate.predicted["goodput_rps"]) / _plan(candidate).num_gpus


def _plan(candidate: Candidate) -> FleetPlan:
    assert candidate.plan is not None  # callers have results of fleets
    return candidate.plan


def basis(results: Results) -> str:
    """What the figures of trials and candidates are of."""
    fleet = results.fleet or {}
    link = fleet["link"]
    replayed = fleet.get("rehearsed")
    of = "all traffic" if replayed is None else f"the first {replayed['requests']:,} requests"
    return (
        f"{results.evidence.note[0].upper()}{results.evidence.note[1:]}. Trials: the busiest "
        f"{fleet['searched_requests']:,} of {fleet['requests']:,} requests in a row; candidates: "
        f"{of}. KV moves over {link['name'] or 'a link'} of "
        f"{digits(link['bytes_per_s'], 1e-9)} GB/s and {digits(link['latency_s'], 1e3)} ms."
    )


def how_to_judge(results: Results, folder: str) -> str:
    """How to get a verdict where there is none, or why there cannot be one."""
    fleet = results.fleet or {}
    if fleet.get("fewest"):
        return (
            "No verdict: it compares both sides at equal GPUs, and this study asks for the fewest. "
            f"Give `fleet: {{gpus: {fleet['max_gpus']}}}` and run `stallfree verdict`."
        )
    modes = [mode for mode in fleet.get("modes", ()) if mode != MIXED]
    if AGGREGATED not in modes or len(fleet.get("modes", ())) < 2:
        return (
            "No verdict: it needs both sides in `fleet.modes`, aggregated and disaggregated. Add "
            "the other one to the study, tune it again, and run `stallfree verdict`."
        )
    return (
        "Whether splitting pays at other prompt lengths, link bandwidths and loads is not judged "
        f"yet: run `stallfree verdict {folder}` (minutes; it takes the candidates of this run)."
    )


def verdict_sentence(verdict: Mapping[str, Any]) -> str:
    """The verdict, its margin and its chance, as the terminal has it."""
    return Text.from_markup(verdict_report.sentence(verdict)).plain


def flips_in_words(verdict: Mapping[str, Any]) -> list[str]:
    """Where the verdict changes, a sentence per axis."""
    lines = []
    for axis, changes in verdict["flips"].items():
        known = verdict["axes"][axis]
        name = f"{known['unit'][0].upper()}{known['unit'][1:]} (own: {short(known['own'])})"
        if not changes:
            ends = [short(known["values"][i]) for i in (0, -1)]
            lines.append(f"{name}: nothing changes from {ends[0]} to {ends[1]}.")
            continue
        parts = [f"{_word(change['below'])} up to {short(change['value'])}" for change in changes]
        parts.append(f"{_word(changes[-1]['above'])} above")
        lines.append(f"{name}: {', '.join(parts)}.")
    return lines


def _word(side: str) -> str:
    return {"disaggregated": "split"}.get(side, side)


def router_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """What another router rule would change of the recommended fleet (`router_effects`)."""
    ran = [row for row in rows if row["refused"] is None]
    own = next((row for row in ran if row["own"]), None)
    others = [row for row in ran if not row["own"]]
    if own is None or not others:
        return "No other router rule can be simulated for this fleet."
    best = max(others, key=lambda row: (row["meets_slo"], row["per_gpu"]))
    worst = min(others, key=lambda row: (row["meets_slo"], row["per_gpu"]))
    missing = sum(not row["meets_slo"] for row in others)
    return (
        f"Of {len(others)} other rules the best is {_rule(best)} with "
        f"{_change(own['per_gpu'], best['per_gpu'])} goodput per GPU, the worst {_rule(worst)} "
        f"with {_change(own['per_gpu'], worst['per_gpu'])}; {missing or 'none'} of them "
        f"miss{'es' if missing == 1 else ''} an SLO."
    )


def refusals(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why rules cannot be simulated, a line each."""
    return [f"Not simulated: {row['refused']}." for row in rows if row["refused"] is not None]


def _rule(row: Mapping[str, Any]) -> str:
    return f"{row['rule']} ({row['part']})"


def _change(own: float, other: float) -> str:
    return f"{100 * (other / own - 1):+.1f} %" if own > 0 else f"{digits(other)} requests/s"


def transfer_sentence(transfer: Mapping[str, float] | None) -> str:
    """How long KV takes to the decode replicas."""
    shares = "Requests (and tokens) that each replica got, 100 %: the mean of its pool."
    if transfer is None:
        return shares
    times = [
        f"{name} p50 {digits(transfer[f'{key}_p50_s'], 1e3)} ms, p99 "
        f"{digits(transfer[f'{key}_p99_s'], 1e3)} ms"
        for name, key in (("loads take", "load"), ("they wait to begin", "wait"))
    ]
    return f"{shares} KV to the decode replicas: {'; '.join(times)}."
