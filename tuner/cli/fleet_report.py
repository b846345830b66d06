"""How results of a search of fleets look on a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from tuner.candidate import Candidate, Evidence
from tuner.fleet_plan import FleetPlan, plan_of
from tuner.intervals import odds
from tuner.results import Results

_BUDGET, _CAP, _SEQS = (
    "max_num_batched_tokens",
    "long_prefill_token_threshold",
    "max_num_seqs",
)
_COLUMNS = (
    "replicas", "tp", "budget", "cap", "sequences", "router", "TTFT p99, ms", "ITL p99, ms",
    "goodput/s", "per GPU", "meets",
)  # fmt: skip
MOST_ROWS = 12
"""of the front"""


def print_fleets(results: Results, console: Console) -> None:
    """Candidates and front as tables, and the loads of the recommended fleet's pools."""
    console.print(candidates_table(results))
    console.print(front_table(results))
    for line in pool_lines(results.recommended):
        console.print(line, highlight=False, soft_wrap=True)
    console.print(basis_line(results), highlight=False, soft_wrap=True)


def candidates_table(results: Results) -> Table:
    """The engine default and the best few, predicted, and rehearsed where they were."""
    table = _table(f"{results.study}: fleets on {_traffic(results)}; {results.evidence.note}", "")
    rehearsed = results.evidence is not Evidence.PREDICTED
    for candidate in results.candidates:
        name = "engine default" if candidate is results.candidates[0] else candidate.label
        if candidate.label == results.recommended.label:
            name = f"[bold]{name}, recommended[/bold]"
        plan, predicted = candidate.plan, candidate.predicted
        assert plan is not None  # results of fleets
        if predicted is None:
            table.add_row(name, *_chosen(plan), "-", "-", "-", "-", "refused")
            continue
        meets = "yes" if predicted["meets_slo"] else "no"
        if predicted["chance"]:
            meets += f" ({odds(predicted)})"
        table.add_row(name, *_chosen(plan), *_figures(plan, predicted), meets)
        if rehearsed:
            table.add_row(*_confirmed(plan, candidate, results.evidence), end_section=True)
    return table


def _traffic(results: Results) -> str:
    """What the figures of the candidates are of."""
    assert results.fleet is not None  # results of fleets
    replayed = results.fleet.get("rehearsed")
    if replayed is None:
        return "all traffic"
    return f"the first {replayed['requests']:,} requests, {replayed['rounds']} rounds"


def _confirmed(plan: FleetPlan, candidate: Candidate, evidence: Evidence) -> tuple[str, ...]:
    """The row under a candidate's predicted one."""
    seen = candidate.measured
    blank = ("",) * len(_chosen(plan))
    if seen is None:
        return (f"  not {evidence}", *blank, "-", "-", "-", "-", "")
    meets = "yes" if seen["meets_slo"] else "no"
    return (f"  {evidence}", *blank, *_figures(plan, seen), meets)


def front_table(results: Results) -> Table:
    """The front of the search, the most goodput per GPU first."""
    points = [p for p in results.front if p["on_front"]]
    points.sort(key=lambda p: (-_per_gpu(p), p["ttft_p99_s"] or 0.0))
    title = f"front of the search: {len(points)} of {len(results.front)} fleets"
    if len(points) > MOST_ROWS:
        title += f", the first {MOST_ROWS} by goodput per GPU"
    table = _table(title, "trial")
    for point in points[:MOST_ROWS]:
        plan = plan_of(point["settings"])
        assert plan is not None  # results of fleets
        meets = "yes" if point["feasible"] else "no"
        table.add_row(str(point["number"]), *_chosen(plan), *_figures(plan, point), meets)
    return table


def pool_lines(candidate: Candidate) -> list[str]:
    """What each pool of a fleet did, and the settings of its replicas."""
    plan = candidate.plan
    assert plan is not None  # results of fleets
    lines = [f"{candidate.label}, {plan.num_gpus} GPUs: {plan.words()}"]
    for pool in plan.pools:
        use = candidate.use.get(pool.role)
        if use is None:
            continue
        least, most = min(use["requests"]), max(use["requests"])
        lines.append(
            f"  {pool.role}: {pool.replicas} replicas of {pool.tp} x {pool.system or 'device'}; "
            f"{100 * use['load']:.0f} % of what its latency model can do, {least:,} to {most:,} "
            f"requests a replica, {use['preemptions']:,} preemptions"
        )
    return lines


def basis_line(results: Results) -> str:
    """What the search looked at."""
    fleet = results.fleet
    assert fleet is not None  # results of fleets
    link = fleet["link"]
    name = link["name"] or "link"
    return (
        f"Front: of the busiest {fleet['searched_requests']:,} of {fleet['requests']:,} requests "
        f"in a row. KV moves over {name}: {link['bytes_per_s'] / 1e9:.4g} GB/s and "
        f"{1e3 * link['latency_s']:.3g} ms."
    )


def _table(title: str, first: str) -> Table:
    table = Table(first, title=title)
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("replicas", "router") else "right")
    return table


def _chosen(plan: FleetPlan) -> tuple[str, ...]:
    rules = dict.fromkeys(rule for rule in (plan.router, plan.decode_router) if rule)
    tp = ":".join(str(pool.tp) for pool in plan.pools)
    each = (plan.each(name) for name in (_BUDGET, _CAP, _SEQS))
    return (plan.ratio, tp, *each, " / ".join(rules))


def _figures(plan: FleetPlan, metrics: dict[str, Any]) -> tuple[str, ...]:
    goodput = metrics["goodput_rps"]
    times = (metrics["ttft_p99_s"], metrics["itl_p99_s"])
    shown = ("-" if t is None else f"{1e3 * t:,.1f}" for t in times)
    return (*shown, f"{goodput:,.2f}", f"{goodput / plan.num_gpus:,.3f}")


def _per_gpu(point: dict[str, Any]) -> float:
    return float(point["goodput_rps"]) / int(point["settings"]["num_gpus"])
