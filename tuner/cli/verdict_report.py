"""How a verdict looks on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from profiler.errors import StudyError
from tuner.verdict.figures import axis_labels, map_figure, own_index, short
from tuner.verdict.margin import TIE, TIE_WORD
from tuner.whole_files import write_text, writing

_SIDES = ("aggregated", "disaggregated")
_WORDS = {"disaggregated": "split"}


def check_picture(picture: Path | None, *, with_map: bool) -> None:
    """Raise `StudyError` for a picture that cannot be drawn, before minutes are spent."""
    if picture is None:
        return
    if picture.suffix != ".html":
        raise StudyError(f"--plot writes an HTML file, got {str(picture)!r}; give FILE.html")
    if not with_map:
        raise StudyError("--plot draws the map, and --no-map leaves it out; remove one")


def save_map(plain: Mapping[str, Any], picture: Path) -> None:
    """Write the map as an HTML file that needs nothing else. Raises `ResultsError`."""
    with writing(picture):
        write_text(picture, map_figure(plain).to_html(include_plotlyjs=True))


def print_verdict(plain: Mapping[str, Any], console: Console) -> None:
    """Everything of `judgement_dict`: the verdict, both sides, flips, maps, regimes."""
    console.print(sentence(plain), highlight=False)
    console.print(sides_table(plain))
    console.print(flips_table(plain))
    for one in plain["map"] or ():
        console.print(map_table(plain, one))
    if plain["regimes"] is not None:
        console.print(regimes_table(plain["regimes"]))
        console.print(gain_sentence(plain["regimes"]), highlight=False)
    console.print(bounds_sentence(plain), highlight=False)


def sentence(plain: Mapping[str, Any]) -> str:
    """The verdict, its margin and its chance."""
    margin = plain["margin"]
    ahead = "disaggregated" if margin > 0 else "aggregated"
    size = f"{100 * abs(margin):.1f} % {'ahead' if margin else 'apart'}"
    if plain["margin_interval"] is not None:
        low, high = plain["margin_interval"]
        size += f" (margin {100 * low:+.1f} to {100 * high:+.1f} %, above 0: split)"
    chance = ""
    if plain["probability"] is not None:
        chance = f" in {100 * plain['probability']:.0f} % of {plain['windows']} arrival windows"
    if plain["verdict"] == TIE_WORD:
        why = f"less than {TIE:.0%}" if abs(margin) < TIE else f"only{chance}"
        return (
            f"[bold]Verdict: tie.[/bold] Goodput per GPU: {_word(ahead)} {size}, {why}; "
            "run the simpler, aggregated one."
        )
    return f"[bold]Verdict: {plain['verdict']}.[/bold] Goodput per GPU: {size}{chance}."


def _word(side: str) -> str:
    return _WORDS.get(side, side)


def sides_table(plain: Mapping[str, Any]) -> Table:
    """The best deployment of each side with its figures."""
    table = Table("", title="the best of each")
    for side in _SIDES:
        table.add_column(_word(side), overflow="fold")  # a setting's value is never cut off
    sides = [plain[side] for side in _SIDES]
    rows = {
        "GPUs": [str(s["num_gpus"]) for s in sides],
        "pools": [escape(pools_text(s)) for s in sides],
        "router": [routers_text(s) for s in sides],
        "good requests/s and GPU": [f"{s['goodput_per_gpu_rps']:.3g}" for s in sides],
        "good requests": [f"{100 * s['slo_attainment']:.1f} %" for s in sides],
        "TTFT p99, ms": [_ms(s["ttft_p99_s"]) for s in sides],
        "ITL p99, ms": [_ms(s["itl_p99_s"]) for s in sides],
        "SLOs": ["met" if s["meets_slo"] else "missed" for s in sides],
        "meets them up to, requests/s": [headroom_text(s["headroom"]) for s in sides],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:,.1f}"


def pools_text(side: Mapping[str, Any]) -> str:
    """A line per pool: replicas, GPUs per replica, settings."""
    lines = []
    for pool in side["pools"]:
        settings = ", ".join(f"{k}={v}" for k, v in pool["settings"].items()) or "engine defaults"
        size = f"{pool['replicas']} x {pool['tp']} GPU"
        system = f" {pool['system']}" if pool["system"] else ""
        lines.append(f"{pool['role']}: {size}{system}, {settings}")
    return "\n".join(lines)


def routers_text(side: Mapping[str, Any]) -> str:
    """The rules for the first and for the decode replica."""
    second = side["decode_router"]
    return str(side["router"]) if second is None else f"{side['router']}, decode {second}"


def headroom_text(headroom: Mapping[str, Any]) -> str:
    """The highest load that meets the SLOs, requests/s."""
    if headroom["highest_rps"] is None:
        return "none looked at"
    return f"{'' if headroom['bounded'] else 'at least '}{short(headroom['highest_rps'])}"


def flips_table(plain: Mapping[str, Any]) -> Table:
    """Where the verdict changes, a row per change; axes on which nothing does, too."""
    table = Table("along", "at", "below", "above", title="where the verdict flips")
    for axis, changes in plain["flips"].items():
        known = plain["axes"][axis]
        name = f"{known['unit']} (own: {short(known['own'])})"
        if changes is None:
            ends = [short(known["values"][i]) for i in (0, -1)]
            table.add_row(name, f"nowhere from {ends[0]} to {ends[1]}", "", "")
        for change in changes or ():
            table.add_row(
                name, short(change["value"]), _word(change["below"]), _word(change["above"])
            )
    return table


def map_table(plain: Mapping[str, Any], one: Mapping[str, Any]) -> Table:
    """One map, the highest load on top; the study's own cell in brackets."""
    x_axis, y_axis = (plain["axes"][one[name]] for name in ("x", "y"))
    table = Table(
        title=f"margin in %, above 0: split ahead; across: {x_axis['unit']}",
        caption="[ ] the study's own; x neither meets the SLOs",
    )
    table.add_column("requests/s", justify="right")
    for label in axis_labels(x_axis, "\n"):
        table.add_column(label, justify="right")
    labels = axis_labels(y_axis, " ")
    own = own_index(y_axis), own_index(x_axis)
    for i in reversed(range(len(labels))):
        cells = [map_cell(cell, (i, j) == own) for j, cell in enumerate(one["cells"][i])]
        table.add_row(labels[i], *cells)
    return table


def map_cell(cell: Mapping[str, Any], own: bool) -> str:
    """A margin, marked."""
    text = f"{100 * cell['margin']:+.0f}"
    if cell["neither_meets_slo"]:
        text += " x"
    if own:
        text = f"[{text}]"
    if abs(cell["margin"]) < TIE:
        return escape(text)
    style = "magenta" if cell["margin"] > 0 else "yellow"
    return f"[{style}]{escape(text)}[/{style}]"


def regimes_table(regimes: Mapping[str, Any]) -> Table:
    """The best P:D over time."""
    table = Table(title=f"P:D over time; best static: {regimes['static']}")
    names = ("from, s", "to, s", "req/s", "prompt", "output", "best", "plan")
    for name in (*names, "good/s/GPU", "static"):
        table.add_column(name, justify="right")
    for row in regimes["stretches"]:
        times = (row["start_s"], row["end_s"])
        means = (row["mean_prompt_tokens"], row["mean_output_tokens"])
        goodput = (row["goodput_per_gpu_rps"], row["static_goodput_per_gpu_rps"])
        table.add_row(
            *(f"{t:,.0f}" for t in times),
            f"{row['rate_rps']:.3g}",
            *(f"{m:,.0f}" for m in means),
            row["best"],
            row["planned"],
            *(f"{g:.3g}" for g in goodput),
        )
    return table


def gain_sentence(regimes: Mapping[str, Any]) -> str:
    """What following the plan gains."""
    num = len(regimes["stretches"])
    if num == 1:
        return "The traffic is one regime: no ratio over time to plan."
    return (
        f"Moving replicas between pools at {num - 1} change{'s' * (num > 2)} gains "
        f"{100 * regimes['gain']:.1f} % goodput per GPU over {regimes['static']} all along; "
        f"{regimes['note']}."
    )


def bounds_sentence(plain: Mapping[str, Any]) -> str:
    """How much was looked at."""
    each, requests = plain["candidates"], plain["requests"]
    return (
        f"Predicted. Re-decided in every cell between {each['aggregated']} aggregated and "
        f"{each['disaggregated']} split candidates; {requests['verdict']:,} requests for the "
        f"verdict, {requests['map']:,} per cell and flip step, at most "
        f"{requests['most_per_regime']:,} per regime."
    )
